// SPDX-License-Identifier: Apache-2.0
//
// What cuts a text into the pieces that a model makes ids of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/text/tokenizer/fields.h"

namespace mebp::text {

struct Piece {
  size_t begin, end; // in the text
  bool isFirst;      // begins where the whole text does
};

struct Pieces {
  std::string text;
  std::vector<Piece> pieces;
};

using PreTokenizer = std::function<Status(Pieces &)>;

// Of "pre_tokenizer" in tokenizer.json; null leaves pieces as they are.
Result<PreTokenizer> makePreTokenizer(const Json &given);

} // namespace mebp::text
