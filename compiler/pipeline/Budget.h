// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/ChooseSchedule.h"

namespace mebp {

/// The fastest schedule whose peak is at most the training's budget; where there is none, the error says what would
/// have to give. `module` has been differentiated and has no schedule yet.
mlir::FailureOr<Choice> chooseWithinBudget(mlir::ModuleOp module, const Options &options, const Machine &machine,
                                           EmitError emitError);

/// What twice the memory would buy a plan without a budget, in a line for people; empty where that is not much.
mlir::FailureOr<std::string> suggestTwice(mlir::ModuleOp module, const Options &options, const Machine &machine);

/// What every budget would choose, of which there may be none in the options.
mlir::FailureOr<std::vector<Choice>> findFrontier(mlir::ModuleOp module, const Options &options,
                                                  const Machine &machine);

struct LongestSequence {
  int64_t sequence = 0;
  Choice choice; // the fastest schedule for it
};

/// The longest sequence, up to `limit`, that trains within that budget.
mlir::FailureOr<LongestSequence> findLongestSequence(mlir::ModuleOp module, const Options &options,
                                                     const Machine &machine, int64_t limit, EmitError emitError);

} // namespace mebp
