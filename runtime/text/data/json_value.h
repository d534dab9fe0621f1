// SPDX-License-Identifier: Apache-2.0
//
// A value of JSON that nobody vouches for, in the order in which it was written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/status.h"

namespace mebp::text {

struct JsonValue {
  enum class Kind { Null, Truth, Number, Text, List, Object };

  Kind kind = Kind::Null;
  double number = 0; // of a truth 0 or 1
  std::string text;
  std::vector<std::string> keys; // of an object, as often as they stand there
  std::vector<JsonValue> values; // of an object or a list

  bool isText() const { return kind == Kind::Text; }
  // The last one of this key, as others read it; null where there is none.
  const JsonValue *find(std::string_view key) const;
  // What it is, in words.
  const char *name() const;
};

// Refuses what is no JSON, or is nested deeper than 32 or has more than 262,144 values.
Result<JsonValue> parseJsonValue(std::string_view text);

} // namespace mebp::text
