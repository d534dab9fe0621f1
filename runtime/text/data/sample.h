// SPDX-License-Identifier: Apache-2.0
//
// A sample of a JSON line, in one of the forms that python/mebp/data/forms.py reads: what is beside them is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/json_value.h"

namespace mebp::text {

enum class Form { Text, Completion, Messages };
// The keys that make it.
const char *nameOf(Form form);

struct Turn {
  std::string role, content;
  bool isLearned = true; // where it is the assistant's
};

struct Sample {
  Form form = Form::Text;
  std::string prompt, text; // what is learned of a completion, or a text on its own
  std::vector<Turn> turns;
  bool isLearned = true;
};

// Refuses, by the place and the key, what is of no form or has anything that is not read.
Result<Sample> readSample(const JsonValue &entry, const std::string &place);

} // namespace mebp::text
