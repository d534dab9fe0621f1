// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mebp {

/// Computes what layers take of the token ids, beside what flows, again in each layer that takes it, so that it crosses
/// no cut. Returns the ops that do so.
llvm::DenseSet<mlir::Operation *> computeInputsAgain(mlir::func::FuncOp function);

/// Whether several ops read a value with everything before their own rows, and no op otherwise: keys or values that
/// later layers take from the layer that makes them.
bool isShared(mlir::Value value);

} // namespace mebp
