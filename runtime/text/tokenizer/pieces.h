// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mebp::text {

struct Piece {
  size_t begin, end; // in the text
  bool isFirst;      // begins where the whole text does
};

struct Pieces {
  std::string text;
  std::vector<Piece> pieces;
};

} // namespace mebp::text
