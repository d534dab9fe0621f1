// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/HostTensor.h"
#include "mlir/IR/Builders.h"

namespace mebp {

/// The op whose value is `tensor`: a rotary table, a causal mask or positions where it is one along a sequence of
/// `sequence` tokens, so that no constant is as long as the sequence; else a small constant. Null where it is too large
/// to be one.
mlir::Value materializeConstant(mlir::OpBuilder &builder, mlir::Location location, const HostTensor &tensor,
                                int64_t sequence);

/// The tensor type that holds a constant or an activation of this kind.
mlir::RankedTensorType tensorType(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape, HostTensor::Kind kind);

} // namespace mebp
