// SPDX-License-Identifier: Apache-2.0
//
// What makes text of tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/text/tokenizer/fields.h"

namespace mebp::text {

struct Decoder {
  std::function<Status(std::vector<std::string> &)> run; // the texts together are the whole
  bool joinsByteTokens = false;                          // what a token such as <0x41> gives depends on those around it
  bool looksAhead = false;                               // what a token gives depends on later ones
};

// Of "decoder" in tokenizer.json; null puts spaces between tokens.
Result<Decoder> makeDecoder(const Json &given);

} // namespace mebp::text
