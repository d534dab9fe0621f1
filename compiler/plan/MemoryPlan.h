// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/CostModel.h"
#include "compiler/plan/PlannedBuffer.h"
#include "compiler/plan/SessionMemory.h"
#include "dialects/exec/Exec.h"

#include <string>
#include <vector>

namespace mebp {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// What a plan depends on beside the module and the options.
struct PlanInputs {
  Machine machine;
  uint64_t weightsBytes = 0; // that are mapped; only a resident limit asks
};

/// What training needs, all of it: docs/format.md names the buffers.
struct MemoryPlan {
  SessionMemory memory;
  std::vector<PlannedBuffer> buffers;    // what that is made of
  std::vector<PlannedBuffer> otherPeaks; // by optimizer and by what becomes of the gradients
  std::vector<PlannedBuffer> atPeak;     // values alive where the largest program needs the most
  StepSeconds stepSeconds;
  double seconds = 0;      // of a step, predicted ...
  bool calibrated = false; // ... by rates that were measured
  uint64_t processBytes = 0;
  uint64_t liveBytes = 0;     // what the step needs at its fullest moment: the peak but for gaps between values
  uint64_t besideBytes = 0;   // of generating, where training does so
  uint64_t peakBytes = 0;     // processBytes, the buffers, and these
  uint64_t inFlightBytes = 0; // of a device's half: what each micro-batch of a step under way beside the first has
  uint64_t deviceBytes = 0;   // what a device with memory of its own holds in a step, beside the weights

  // Of a process that only generates text; nothing where the bundle cannot.
  std::vector<PlannedBuffer> generation;
  uint64_t generationPeakBytes = 0; // processBytes and these
  uint64_t generationDeviceBytes = 0;
};

/// That a module can be planned: every program is placed, and those that blocks name are there. What the passes make
/// always can; a text may be anything. `emitError` begins the error.
llvm::LogicalResult verifyPlanned(mlir::ModuleOp module, EmitError emitError);

/// Reckons the plan of a placed module of exec programs.
MemoryPlan computeMemoryPlan(mlir::ModuleOp module, const Options &options, const PlanInputs &inputs);

/// A checkpoint as the head reads it: [tokens, hidden], in the type of activations.
mlir::RankedTensorType getCheckpointType(mlir::ModuleOp module);

} // namespace mebp
