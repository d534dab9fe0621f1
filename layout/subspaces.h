// SPDX-License-Identifier: Apache-2.0
//
// Where subspaces are found (runtime/train/subspaces.h): the thin matrices of a block, and what finds a projector.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/choice.h"
#include "layout/facts.h"
#include "layout/region.h"

namespace mebp::layout {

// The thin matrices of one trainable of one block, which has memory while its subspaces are found.
struct ThinPlaces {
  uint32_t trainable = 0;
  uint64_t sketch = 0, range = 0;         // in the subspaces' memory, which blocks share
  uint64_t keptSketch = 0, keptRange = 0; // over micro-batches: in a sum
  uint64_t sketchElements = 0, rangeElements = 0, wholeElements = 0;
  uint32_t group = 0; // of those whose gradients are formed together
  uint64_t whole = 0; // in the room for these, which is a sum then
};

struct SubspacePlan {
  uint64_t begin = 0;     // in the session's memory; other offsets count from here
  uint64_t sumsBegin = 0; // likewise, of what is kept over micro-batches
  std::vector<std::vector<ThinPlaces>> blocks;
  bool isExact = false;  // by a singular value decomposition
  uint64_t room = 0;     // of whole gradients, where that is so
  uint64_t sumBytes = 0; // of a sum over micro-batches, from sumsBegin or from room on; in a tree several are open
  uint64_t workspace = 0;
  uint64_t bytes = 0;
};

// What is kept over micro-batches; nothing else is summed up meanwhile, so that it lies where gradients are summed.
uint64_t subspaceSumBytes(const Facts &facts, const Choice &choice);
// Empty where the optimizer takes whole gradients.
SubspacePlan planSubspaces(const Facts &facts, const Choice &choice, uint64_t sumsBegin, Region &memory);

} // namespace mebp::layout
