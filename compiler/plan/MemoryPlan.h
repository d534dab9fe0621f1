// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/CostModel.h"
#include "compiler/plan/PlannedBuffer.h"
#include "compiler/plan/Session.h"
#include "dialects/exec/Exec.h"

#include <string>
#include <vector>

namespace mebp {

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// What training needs, all of it: docs/format.md names the buffers.
struct MemoryPlan {
  layout::Choice choice;
  layout::Layout layout;                 // of a session that chooses so
  std::vector<PlannedBuffer> buffers;    // what that is made of
  std::vector<PlannedBuffer> otherPeaks; // by optimizer and by what becomes of the gradients
  std::vector<PlannedBuffer> atPeak;     // values alive where the largest program needs the most
  double seconds = 0;                    // of a step, predicted ...
  bool calibrated = false;               // ... by rates that were measured
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

/// Reckons the plan of a placed module of exec programs, whose facts these are.
MemoryPlan computeMemoryPlan(mlir::ModuleOp module, const layout::Facts &facts, const Options &options,
                             const Machine &machine);

/// What a session that trains has of generation, whose logits are the caller's; 0 where it does not write text.
uint64_t countBeside(mlir::ModuleOp module, const layout::Facts &facts, const Options &options);

} // namespace mebp
