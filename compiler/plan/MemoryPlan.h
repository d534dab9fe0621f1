// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/Schedule.h"
#include "dialects/exec/Exec.h"

#include <string>
#include <vector>

namespace mebp {

struct PlanOptions {
  int64_t batch = 1;
  int64_t sequence = 256;
  int64_t threads = 1;
  std::string optimizer = "adamw";
  Schedule schedule;
  uint64_t budget = 0; // what the peak may be, in bytes; 0: whatever it comes to
};

struct PlannedBuffer {
  std::string name;
  uint64_t bytes;
  std::string source; // what it comes from, for people
};

/// What training needs, all of it: docs/format.md names the buffers, runtime/train/ lays out the same ones.
struct MemoryPlan {
  std::vector<PlannedBuffer> buffers;
  std::vector<PlannedBuffer> otherPeaks; // by optimizer and by what becomes of the gradients
  std::vector<PlannedBuffer> atPeak;     // values alive where the largest program needs the most
  uint64_t checkpointBytes = 0;          // of one
  double seconds = 0;                    // of a step, predicted
  uint64_t processBytes = 0;
  uint64_t peakBytes = 0; // processBytes and the buffers
};

/// Reckons the plan of a placed module of exec programs.
MemoryPlan computeMemoryPlan(mlir::ModuleOp module, const PlanOptions &options);

/// How many checkpoints of `blocks` have memory at once: the kept ones, and those between two of them.
uint64_t countCheckpoints(uint64_t blocks, uint64_t spacing);

/// A checkpoint as the head reads it: [tokens, hidden], in the type of activations.
mlir::RankedTensorType getCheckpointType(mlir::ModuleOp module);

/// The name of the node or layer that a location stands for.
std::string describeLocation(mlir::Location location);

} // namespace mebp
