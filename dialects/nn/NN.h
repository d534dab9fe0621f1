// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"

#include "dialects/nn/Kernels.h"
#include "dialects/nn/Sequence.h"

#include "dialects/nn/NNDialect.h.inc"
#include "dialects/nn/NNInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttributes.h.inc"
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.h.inc"

namespace mebp::nn {

/// The last size of a ranked tensor: features of an activation, inputs of a weight.
inline int64_t features(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape().back();
}

/// Whether a type is of rows of tokens: [batch, sequence, features].
inline bool isTokens(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && tensor.getRank() == 3;
}

} // namespace mebp::nn
