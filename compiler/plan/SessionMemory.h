// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"

namespace mebp {

/// What a session has in memory, in bytes, by what decides on it: runtime/train/layout.cpp lays the same out. A plan is
/// one of these; another schedule or optimizer is a copy with other fields.
struct SessionMemory {
  // The model.
  uint64_t layers = 0, checkpoint = 0; // a checkpoint is a layer's input, one flows between blocks
  uint64_t trainables = 0, largestTrainable = 0;
  // Its programs.
  bool flowsInPlace = false; // else a block's input and output are two
  uint64_t scratch = 0;      // of the program that needs the most
  // What becomes of the gradients.
  uint64_t gradients = 0;
  uint64_t stateArrays = 0; // of the optimizer, each as large as the trainables
  bool forwardOnly = false; // no backward runs, which would read checkpoints
  // The schedule.
  uint64_t spacing = 1;
  Spill spill = Spill::None;
  // The step's tokens; what the head takes and gives for them, where no gradients come into its place; and what only
  // the run decides on.
  uint64_t tokens = 0, head = 0, workspace = 0, residency = 0;

  /// How many checkpoints have memory at once: the kept ones, and those between two of them.
  uint64_t countCheckpoints() const;
  uint64_t checkpoints() const { return countCheckpoints() * checkpoint; }
  uint64_t flow() const { return flowsInPlace ? checkpoint : 2 * checkpoint; }
  /// Of the optimizer. What is in a file is in memory for one trainable at a time.
  uint64_t state() const { return stateArrays * (spill == Spill::All ? largestTrainable : trainables); }
  uint64_t total() const {
    return checkpoints() + flow() + trainables + state() + gradients + scratch + workspace + tokens + head + residency;
  }
  /// What a step writes to a file.
  uint64_t file() const;
};

/// What generating text has in memory: runtime/generate/layout.cpp lays the same out.
struct GenerationMemory {
  uint64_t trainables = 0, workspace = 0, residency = 0; // as a session that trains has them
  uint64_t flow = 0;                                     // what passes between blocks, a step's rows
  uint64_t state = 0;                                    // of all blocks
  uint64_t scratch = 0, tokens = 0;
  uint64_t logits = 0; // the caller's

  uint64_t total() const { return trainables + workspace + residency + flow + state + scratch + tokens + logits; }
};

} // namespace mebp
