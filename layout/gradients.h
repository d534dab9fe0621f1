// SPDX-License-Identifier: Apache-2.0
//
// Where gradients are written. One that is applied at once only needs memory while its block is run, or until the
// caller has given it back: that memory is shared by blocks that are `slots` apart. One that is kept or summed, or that
// comes from several blocks, has memory of its own. What is updated elsewhere is not kept.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/choice.h"
#include "layout/facts.h"
#include "layout/region.h"

namespace mebp::layout {

// One GRADIENT output of one block.
struct Contribution {
  uint32_t trainable = 0;
  bool isDirect = false; // the program writes it to the trainable's own memory, else to
  uint64_t offset = 0;   // scratch
  bool add = false;      // onto the trainable's own memory, which holds what came before
  bool last = false;     // of this trainable in a backward pass
};

struct GradientPlan {
  GradientUse use = GradientUse::Apply;
  uint64_t begin = 0;                            // in the session's memory: what trainables have of their own
  uint64_t scratch = 0;                          // in a lane's: what they have while a block is run
  std::vector<std::vector<Contribution>> blocks; // for each block, in the order of its program's GRADIENT outputs
  std::vector<uint64_t> own;                     // for each trainable its own memory from `begin` on, or noOffset
  uint64_t ownBytes = 0;                         // of all those
  uint64_t further = 0;                          // as much for each further sum of a tree
  uint64_t pending = 0;                          // as much, of the sum whose factor is not known yet; or noOffset
  uint64_t head = 0;                             // for a while, in a lane's memory: what the head takes and gives
  uint64_t bytes = 0, scratchBytes = 0;          // from `begin` and from `scratch` on
  uint32_t slots = 1;                            // of the scratch
  bool areOffered = false;                       // and may be out when their block has run

  uint32_t slotOf(uint32_t block) const { return static_cast<uint32_t>(blocks.size() - 1 - block) % slots; }
};

// The head's step ports need `headBytes`, until the backwards begin. The memory that gradients have of their own, from
// the plan's beginning on, is at least `ownBytes`.
GradientPlan planGradients(const Facts &facts, const Choice &choice, uint64_t headBytes, uint64_t ownBytes,
                           Region &memory, Region &lane);

} // namespace mebp::layout
