// SPDX-License-Identifier: Apache-2.0
//
// Which samples stand side by side in a row, as python/mebp/data/sharing.py places them.
#pragma once

#include <cstdint>
#include <vector>

namespace mebp::text {

struct SharedRows {
  std::vector<uint64_t> members; // numbers of samples, row after row
  std::vector<uint64_t> bounds;  // [rows + 1], where each row's members begin, and the last one's end
};

// Samples of at most `length` tokens come in an order that depends on the seed alone; each goes where the least room is
// left that holds it, of several such rows into the first, or else begins a row.
SharedRows placeSamples(const std::vector<uint32_t> &lengths, uint32_t length, uint64_t seed);

} // namespace mebp::text
