// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"

namespace mebp {

/// The cotangent of each value that has one.
using Cotangents = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Reverse-mode differentiation of straight-line code. Builds, before the terminator of `function`, the cotangents of
/// every value that lies between the `active` arguments and the seeded results. `seeds` gives the known cotangents to
/// begin with; an objective, which is its own seed, has a null one. Fails with a diagnostic where an op has no rule.
mlir::FailureOr<Cotangents> differentiate(mlir::func::FuncOp function, llvm::ArrayRef<mlir::Value> active,
                                          const Cotangents &seeds);

} // namespace mebp
