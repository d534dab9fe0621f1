// SPDX-License-Identifier: Apache-2.0
//
// What verifiers of several subjects check.
#pragma once

#include "dialects/nn/NN.h"

namespace mebp::nn {

/// Checks a value's last size; one known at run time only agrees with any.
llvm::LogicalResult checkFeatures(mlir::Operation *op, mlir::Value value, llvm::StringRef name, int64_t expected);

/// A product of low rank has both of its factors, or none.
llvm::LogicalResult checkLow(mlir::Operation *op, mlir::Value low, mlir::Value weight);

llvm::LogicalResult checkLike(mlir::Operation *op, mlir::Value value, llvm::StringRef name, mlir::Value other);

llvm::LogicalResult checkSoftcap(mlir::Operation *op, std::optional<llvm::APFloat> softcap);

} // namespace mebp::nn
