// SPDX-License-Identifier: Apache-2.0
//
// A piece of memory, or a file, with how much of it is whose.
#pragma once

#include <array>

#include "format/container.h"
#include "layout/placer.h"

namespace mebp::layout {

enum class Owner {
  Checkpoints,
  Flows,
  Remote, // what a block's programs give each other
  Kept,   // of that, values that a layer need not compute again
  Shared, // what several blocks read, and their cotangents
  Trainables,
  OptimizerState, // and what the optimizer has while it updates
  Gradients,
  Subspaces,
  Tokens, // what a step takes and gives
  Wire,
  States, // keys and values of generation
  Scratch,
  Workspace,
  Residency,
  Padding, // behind what has pages of its own
  Count
};

class Region {
public:
  uint64_t take(Owner owner, uint64_t bytes) {
    const uint64_t offset = placer.take(bytes);
    sums[static_cast<size_t>(owner)] += placer.total() - offset;
    return offset;
  }
  // In pages of its own, which come and go with it.
  uint64_t takePages(Owner owner, uint64_t bytes) {
    const uint64_t offset = take(owner, bytes), used = total() - offset;
    const uint64_t pages = (used + format::regionAlignment - 1) / format::regionAlignment;
    take(Owner::Padding, pages * format::regionAlignment - used);
    return offset;
  }
  // A region of its own within this one.
  uint64_t take(const Region &other) {
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += other.sums[i];
    return placer.take(other.total());
  }
  uint64_t total() const { return placer.total(); }
  uint64_t written() const { return total() - of(Owner::Padding); }
  uint64_t of(Owner owner) const { return sums[static_cast<size_t>(owner)]; }

private:
  Placer placer;
  std::array<uint64_t, static_cast<size_t>(Owner::Count)> sums = {};
};

} // namespace mebp::layout
