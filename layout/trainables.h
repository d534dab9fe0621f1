// SPDX-License-Identifier: Apache-2.0
//
// Where what is trained lies, and what the optimizer keeps of it.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/choice.h"
#include "layout/facts.h"
#include "layout/region.h"

namespace mebp::layout {

// Where trainables lie: one trainable after another, then what the optimizer keeps of each, in the same order. Of two
// adapters, the one that is not in use has its weights behind the other's, and what is kept lies by Adapter. What is in
// the file has room in memory for one trainable's. There trainables lie in pages of their own, and programs read them
// in place.
struct TrainablePlan {
  uint64_t begin = 0;                      // of the first trainable, in memory or in the file
  std::vector<uint64_t> places;            // of each, counted from there
  uint64_t keptBegin = 0;                  // likewise
  std::vector<uint64_t> kept;              // of each trainable's first array, counted from there; or noOffset
  std::vector<ElementRange> owned;         // of each trainable; empty: all of it
  uint64_t weightBytes = 0, keptBytes = 0; // of one adapter
  uint32_t adapters = 1;
  uint64_t readBegin = 0; // likewise of what programs read of it, which stays in memory
  std::vector<uint64_t> read;
  uint64_t readBytes = 0;
  bool areWeightsFiled = false, isKeptFiled = false;
  // In memory:
  uint64_t memoryBegin = 0, memoryEnd = 0;
  uint64_t weightRoom = 0;  // of one trainable that is in the file
  uint64_t keptRoom = 0;    // of what is kept of it
  uint64_t scratch = 0;     // of the optimizer while it updates one
  uint64_t mappedBytes = 0; // of the file, from its beginning: what programs read in place
};

// What of each trainable is part `index` of `count`: parts have about as many bytes of gradients, and so of state. With
// an optimizer that goes by elements, what has `count` tiles of the norm is cut between them; without one, nothing is.
std::vector<ElementRange> partOf(const Facts &facts, const format::OptimizerTraits *cutBy, uint32_t index,
                                 uint32_t count);

// The shape that what is kept of a trainable has where so much of it is owned.
format::TrainedShape keptShape(const format::TrainedShape &whole, const ElementRange &owned);

TrainablePlan planTrainables(const Facts &facts, const Choice &choice, Region &memory, Region &file);

} // namespace mebp::layout
