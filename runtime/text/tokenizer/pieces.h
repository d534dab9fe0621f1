// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/text/tokenizer/traced_text.h"

namespace mebp::text {

struct Piece {
  size_t begin, end; // in the text
  bool isFirst;      // begins where the whole text does
};

struct Pieces {
  TracedText text;
  std::vector<Piece> pieces;
};

} // namespace mebp::text
