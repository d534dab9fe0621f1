// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "compiler/plan/CostModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace mebp {

/// Marks the ops of every layer's backward with how long they take on whole sequences (compiler/keep). Takes a module
/// that has been differentiated and has no schedule yet.
llvm::LogicalResult priceRecomputation(mlir::ModuleOp module, const Options &options, const Machine &machine);

} // namespace mebp
