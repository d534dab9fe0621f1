// SPDX-License-Identifier: Apache-2.0
//
// A module that is planned says what it was planned for, so that its text is all that a bundle is made of.
#pragma once

#include "compiler/Options.h"
#include "compiler/plan/MemoryPlan.h"

namespace mebp {

void setOptions(mlir::ModuleOp module, const Options &options);

/// Fails, with an error that `emitError` begins, where the module has none or where one is missing or invalid.
mlir::FailureOr<Options> getOptions(mlir::ModuleOp module, EmitError emitError);

} // namespace mebp
