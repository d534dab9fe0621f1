// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/ChooseSchedule.h"
#include "llvm/Support/Error.h"

namespace mebp {

/// The fastest schedule whose peak is at most plan.budget bytes, or an error that says what would have to give.
/// `module` has been differentiated, has no schedule yet, and stays as it is.
llvm::Expected<Choice> chooseWithinBudget(mlir::ModuleOp module, const PipelineOptions &pipeline,
                                          const PlanOptions &plan);

struct LongestSequence {
  int64_t sequence = 0;
  Choice choice; // the fastest schedule for it
};

/// The longest sequence, up to `limit`, that trains within plan.budget bytes.
llvm::Expected<LongestSequence> findLongestSequence(mlir::ModuleOp module, const PipelineOptions &pipeline,
                                                    const PlanOptions &plan, int64_t limit);

/// Physical memory, in bytes.
uint64_t getMachineMemory();

} // namespace mebp
