// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "compiler/plan/CostModel.h"
#include "dialects/exec/Exec.h"

#include <string>
#include <vector>

namespace mebp {

/// What a plan depends on beside the module and the options.
struct PlanInputs {
  Machine machine;
  uint64_t weightsBytes = 0; // that are mapped; only a resident limit asks
};

struct PlannedBuffer {
  std::string name;
  uint64_t bytes;
  std::string source; // what it comes from, for people
};

/// What training needs, all of it: docs/format.md names the buffers, runtime/train/ lays out the same ones.
struct MemoryPlan {
  std::vector<PlannedBuffer> buffers;
  std::vector<PlannedBuffer> otherPeaks;    // by optimizer and by what becomes of the gradients
  std::vector<PlannedBuffer> atPeak;        // values alive where the largest program needs the most
  uint64_t layers = 0, checkpointBytes = 0; // a checkpoint is a layer's input
  uint64_t keptBytes = 0;                   // of all checkpoints in memory
  uint64_t flowBytes = 0;                   // of what flows between blocks: one or two as large as a checkpoint
  uint64_t stateBytes = 0;                  // of the optimizer, wherever that is ...
  uint64_t filedStateRoom = 0;              // ... and of the part that is in memory at once where it is in a file
  uint64_t fileBytes = 0;                   // written to a file in each step
  StepSeconds stepSeconds;
  double seconds = 0;      // of a step, predicted ...
  bool calibrated = false; // ... by rates that were measured
  uint64_t processBytes = 0;
  uint64_t liveBytes = 0; // what the step needs at its fullest moment: the peak but for gaps between values
  uint64_t peakBytes = 0; // processBytes and the buffers
};

/// Reckons the plan of a placed module of exec programs.
MemoryPlan computeMemoryPlan(mlir::ModuleOp module, const Options &options, const PlanInputs &inputs);

/// How many checkpoints of `layers` have memory at once: the kept ones, and those between two of them.
uint64_t countCheckpoints(uint64_t layers, uint64_t spacing);

/// What a step writes to a file. A plan's own is plan.fileBytes; this asks it for another choice.
uint64_t getFileBytes(const MemoryPlan &plan, Spill spill);

/// A checkpoint as the head reads it: [tokens, hidden], in the type of activations.
mlir::RankedTensorType getCheckpointType(mlir::ModuleOp module);

} // namespace mebp
