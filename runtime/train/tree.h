// SPDX-License-Identifier: Apache-2.0
//
// Sums over micro-batches in a binary tree over their numbers: a sum of 2^k of them meets its like, and after the last
// one what is left is summed, the latest first. So a run of 2^k of them that is made elsewhere is the same node.
#pragma once

#include <array>
#include <cstdint>

namespace mebp {

// Of one micro-batch: which sum it is added to, and what becomes of that.
struct TreePlace {
  uint32_t slot = 0;  // as many sums are open before it
  uint32_t meets = 0; // how many of those its own is added to in turn, the one before it first

  static TreePlace of(uint32_t index, uint32_t count) {
    TreePlace place;
    uint32_t alike = 0;
    for (uint32_t rest = index; rest; rest >>= 1)
      place.slot += rest & 1;
    for (uint32_t rest = index; rest & 1; rest >>= 1)
      ++alike;
    place.meets = index + 1 == count ? place.slot : alike;
    return place;
  }
};

// Of one number of each.
class TreeSum {
public:
  void add(TreePlace place, double value) {
    open[place.slot] = value;
    for (uint32_t number = place.slot; number > place.slot - place.meets; --number)
      open[number - 1] += open[number];
  }
  double whole() const { return open[0]; }

private:
  std::array<double, 33> open = {}; // of 2^32 micro-batches
};

} // namespace mebp
