// SPDX-License-Identifier: Apache-2.0
//
// The memory of a generation, in one piece beside the session's. Everything starts at a multiple of 64 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/checkpoints.h"
#include "layout/remote.h"

namespace mebp::layout {

// What a block keeps from step to step under one name.
struct StatePlace {
  uint64_t offset = 0;
  uint64_t capacity = 0; // positions of each batch item
  uint64_t rowBytes = 0;
  uint64_t window = 0;    // how far back it is read; 0: it keeps every position
  bool isCarried = false; // it has nothing of any one position: it goes back by its copy alone
  uint64_t copy = 0;      // of what is carried: where it lies
  uint64_t itemBytes() const { return capacity * rowBytes; }
};

struct GenerationPlan {
  uint32_t rows = 0;                           // of tokens that a step takes
  CheckpointPlan flows;                        // what passes between blocks, and is nowhere kept
  RemotePlan remote;                           // likewise, within a block
  std::vector<std::vector<StatePlace>> states; // of each block, in the order of its program's ports
  uint64_t ids = 0, wantedRows = 0;            // numbers of rows whose logits are asked for
  uint64_t draft = 0;                          // the tokens of the last one
  uint64_t history = 0;                        // of half a model alone
  uint64_t scratch = 0;
  Region memory;
  uint64_t total() const { return memory.total(); }
};

// Of a bundle that can generate; for a device that places values itself, or for one that follows placements.
GenerationPlan planGeneration(const Facts &facts, bool placesValues, bool isApart = false);

} // namespace mebp::layout
