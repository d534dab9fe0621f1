// SPDX-License-Identifier: Apache-2.0
//
// Where what flows from block to block lies, and which of it a backward finds again. The input of a layer is a
// checkpoint: it is kept, or computed again with others of its segment, or in a file.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/choice.h"
#include "layout/facts.h"
#include "layout/region.h"

namespace mebp::layout {

struct CheckpointPlan {
  uint64_t bytes = 0; // of each place, which has room for what flows behind any block
  // Of the input of each layer, one after another: where it is in memory, or in the file of a session that spills;
  // nowhere, of a layer that runs elsewhere or that no backward comes to. In memory every `spacing`-th, which begins a
  // segment, has a place of its own. The others are there for one segment at a time, in places that all segments share,
  // and are computed again when the backward comes to them. The last segment is whole; the first may lack its
  // beginning, and is then computed again from the ids, or where layers lie below from its first input, which then has
  // a place of its own, too.
  std::vector<uint64_t> places;
  bool spilled = false;
  bool forwardOnly = false; // no backward reads what a forward has left
  bool gathered = false;    // the head's input comes from elsewhere, in the rows alone that it runs on
  uint32_t first = 0;       // that a backward reads
  uint32_t spacing = 1;
  uint32_t missing = 0; // places that the first segment lacks
  uint32_t placeInSegment(uint32_t checkpoint) const { return (checkpoint - first + missing) % spacing; }
  bool isKept(uint32_t checkpoint) const {
    return checkpoint >= first && (placeInSegment(checkpoint) == 0 || (checkpoint == first && first > 0));
  }
  // What flows from block to block and is no checkpoint: the head's input, then cotangents; where checkpoints are not
  // in memory, activations as well. Two places that take turns, or one where all programs run in place.
  uint64_t flow[2] = {};
};

// How many of so many checkpoints have memory at once where every `spacing`-th has a place of its own. `areAll`: no
// layers lie below.
uint64_t placesOf(uint64_t checkpoints, uint64_t spacing, bool areAll);

CheckpointPlan planCheckpoints(const Facts &facts, const Choice &choice, Region &memory, Region &file);

// Of generation: what flows, without a checkpoint.
CheckpointPlan planFlows(const Facts &facts, bool isApart, Region &memory);

} // namespace mebp::layout
