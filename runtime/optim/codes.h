// SPDX-License-Identifier: Apache-2.0
//
// Rows of f32 as codes that kernels read (format/storage.h): of groups of 32, each with a scale and a minimum. A
// group's grid covers all of its numbers, so that none is clipped.
#pragma once

#include <cstdint>

#include "format/stored_row.h"

namespace mebp {

// Where a row's codes are written to.
struct CodedRow {
  format::Storage storage; // Int4 or Int8
  unsigned char *codes;
  uint16_t *scales, *minima; // f16

  // What begins with an element of a group's beginning, of eight bits.
  CodedRow from(uint64_t first) const {
    return {storage, codes + first, scales + first / format::groupSize, minima + first / format::groupSize};
  }
  format::StoredRow stored() const { return {storage, codes, scales, minima}; }
};

// Each to the nearest code.
void roundToNearest(const float *values, uint64_t columns, const CodedRow &out);
// Each to one of the two codes around it, to the upper one with the probability that makes its mean the number itself.
// The choice is drawn by format/random.h for (seed, 0, element): the row's first is `element`.
void roundAtRandom(const float *values, uint64_t columns, uint64_t seed, uint64_t element, const CodedRow &out);

} // namespace mebp
