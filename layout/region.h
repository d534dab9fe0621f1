// SPDX-License-Identifier: Apache-2.0
//
// A piece of memory, or a file, with how much of it is whose.
#pragma once

#include <array>

#include "layout/placer.h"

namespace mebp::layout {

enum class Owner {
  Checkpoints,
  Flows,
  Remote, // what a block's programs give each other
  Kept,   // of that, values that a layer need not compute again
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
  Count
};

class Region {
public:
  uint64_t take(Owner owner, uint64_t bytes) {
    return note(owner, [&] { return placer.take(bytes); });
  }
  // In pages of its own, which come and go with it.
  uint64_t takePages(Owner owner, uint64_t bytes) {
    return note(owner, [&] { return placer.takePages(bytes); });
  }
  // A region of its own within this one.
  uint64_t take(const Region &other) {
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += other.sums[i];
    return placer.take(other.total());
  }
  uint64_t total() const { return placer.total(); }
  uint64_t of(Owner owner) const { return sums[static_cast<size_t>(owner)]; }

private:
  template <typename Take> uint64_t note(Owner owner, const Take &take) {
    const uint64_t offset = take();
    sums[static_cast<size_t>(owner)] += placer.total() - offset;
    return offset;
  }

  Placer placer;
  std::array<uint64_t, static_cast<size_t>(Owner::Count)> sums = {};
};

} // namespace mebp::layout
