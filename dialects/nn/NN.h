// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"

#include "dialects/nn/Kernels.h"
#include "dialects/nn/Sequence.h"

#include "dialects/nn/NNDialect.h.inc"
#include "dialects/nn/NNInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttributes.h.inc"

namespace mebp::nn {

/// Whether a type is of rows of tokens.
inline bool isTokens(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && llvm::isa_and_present<TokensAttr>(tensor.getEncoding());
}

/// The positions that a state has room for; 0 where tokens are of the step.
inline int64_t getCapacity(mlir::Type type) {
  int64_t sequence = llvm::cast<mlir::RankedTensorType>(type).getShape()[1];
  return mlir::ShapedType::isDynamic(sequence) ? 0 : sequence;
}

/// The last size of a ranked tensor: features of an activation, inputs of a weight.
inline int64_t features(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape().back();
}

/// Of rows of tokens: [batch, sequence, features]; a part of the features may be known at run time alone. A state has a
/// capacity instead of a sequence.
inline mlir::RankedTensorType getTokensType(int64_t features, mlir::Type element,
                                            int64_t capacity = mlir::ShapedType::kDynamic) {
  constexpr int64_t dynamic = mlir::ShapedType::kDynamic;
  return mlir::RankedTensorType::get({dynamic, capacity, features}, element, TokensAttr::get(element.getContext()));
}

} // namespace mebp::nn
