// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"

namespace mebp {

/// What a session has in memory, in bytes, by what decides on it: layout/layout.cpp lays the same out. A plan is
/// one of these; another schedule or optimizer is a copy with other fields.
struct SessionMemory {
  // The model.
  uint64_t layers = 0, checkpoint = 0;           // a checkpoint is a layer's input, one flows between blocks
  uint64_t trainables = 0, largestTrainable = 0; // of one adapter
  uint64_t adapters = 1;                         // a value head's own is another of the same size
  // Its programs.
  bool flowsInPlace = false;                                   // else a block's input and output are two
  uint64_t remoteKept = 0, remotePassing = 0, remoteWhole = 0; // what programs of a block give each other
  uint64_t values = 0;  // in remoteKept, those of layers that a backward need not compute again
  uint64_t scratch = 0; // of the program that needs the most; on a device, in the device's memory
  // What becomes of the gradients.
  uint64_t gradients = 0;
  uint64_t keptState = 0, largestState = 0; // by the optimizer: of all trainables, of the one with the most
  uint64_t updateScratch = 0;               // of the optimizer, while it updates one
  uint64_t subspaces = 0;                   // while those of one block are found, to which gradients are projected
  uint64_t readState = 0;                   // of it, what backwards read, as projectors: it stays in memory
  bool forwardOnly = false;                 // no backward runs, which would read checkpoints
  // The schedule.
  uint64_t spacing = 1;
  Spill spill = Spill::None;
  // The step's tokens; what the head takes and gives for them, where no gradients come into its place; and what only
  // the run decides on.
  uint64_t tokens = 0, head = 0, workspace = 0, residency = 0;
  uint64_t wire = 0;     // frames to the other half of a split model, until it has them
  bool onDevice = false; // which has memory of its own

  /// How many checkpoints have memory at once: the kept ones, and those between two of them.
  uint64_t countCheckpoints() const;
  uint64_t checkpoints() const { return countCheckpoints() * checkpoint; }
  uint64_t remote() const { return forwardOnly ? remoteWhole : remoteKept + remotePassing; }
  uint64_t flow() const { return flowsInPlace ? checkpoint : 2 * checkpoint; }
  bool filesTrainables() const { return spill == Spill::All && !forwardOnly; }
  /// Of what is trained, and of the optimizer. What is in a file is in memory for one trainable at a time.
  uint64_t trained() const { return filesTrainables() ? largestTrainable : adapters * trainables; }
  bool filesState() const { return spill == Spill::All; }
  uint64_t state() const { return (filesState() ? largestState : adapters * keptState) + readState + updateScratch; }
  /// What a device has beside the host, beside the programs' own values.
  uint64_t deviceCopies() const {
    uint64_t read = trainables + readState;
    return onDevice ? read + checkpoints() + flow() + remote() + tokens + head : 0;
  }
  uint64_t total() const {
    return checkpoints() + flow() + remote() + trained() + state() + subspaces + gradients + scratch + workspace +
           tokens + head + wire + residency + deviceCopies();
  }
  /// What a step writes to a file.
  uint64_t file() const;
};

/// What generating text has in memory: layout/generation.cpp lays the same out.
struct GenerationMemory {
  uint64_t trainables = 0, workspace = 0, residency = 0, wire = 0; // as a session that trains has them
  uint64_t flow = 0, remote = 0; // what passes between blocks, and between programs of one, a step's rows
  uint64_t state = 0;            // of all blocks
  uint64_t scratch = 0, tokens = 0;
  uint64_t logits = 0;   // the caller's
  bool onDevice = false; // likewise

  uint64_t deviceCopies() const { return onDevice ? trainables + flow + remote + state + tokens : 0; }
  uint64_t total() const {
    return trainables + workspace + residency + wire + flow + remote + state + scratch + tokens + logits +
           deviceCopies();
  }
};

} // namespace mebp
