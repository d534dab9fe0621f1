// SPDX-License-Identifier: Apache-2.0
//
// Which part of its domain each trip of a loop covers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "format/program.pb.h"

namespace mebp {

struct Trip {
  int64_t first = 0, rows = 0; // it covers [first, first + rows)
};

// The trips of a loop in one step. Borders are the same whichever way a sequence is run through; items ascend in both.
class Trips {
public:
  Trips() = default;
  // `weightRows`: of the loop's domain value, where that is a weight.
  Trips(const format::Loop &loop, int64_t weightRows, int64_t batch, int64_t sequence)
      : size(loop.size()), reversed(loop.domain() == format::Loop::SEQUENCE_REVERSED) {
    bool byItem = reversed || loop.domain() == format::Loop::SEQUENCE;
    length = loop.domain() == format::Loop::WEIGHT_ROWS ? weightRows : byItem ? sequence : batch * sequence;
    perItem = (length + size - 1) / size;
    total = byItem ? batch * perItem : perItem;
  }

  int64_t count() const { return total; }
  Trip operator[](int64_t index) const {
    int64_t item = index / perItem, chunk = index % perItem;
    int64_t offset = (reversed ? perItem - 1 - chunk : chunk) * size;
    return {item * length + offset, std::min(size, length - offset)};
  }

  // Where it stands in the sequence and the batch, whichever way they are run through.
  int64_t placeOf(int64_t index) const {
    return reversed ? index - index % perItem + (perItem - 1 - index % perItem) : index;
  }

private:
  int64_t size = 1, length = 0, perItem = 0, total = 0;
  bool reversed = false;
};

} // namespace mebp
