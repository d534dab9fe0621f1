// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "dialects/train/TrainDialect.h.inc"
#include "dialects/train/TrainEnums.h.inc"
namespace mebp::train {
class YieldOp;
}
#define GET_OP_CLASSES
#include "dialects/train/TrainOps.h.inc"

namespace mebp::train {

// What an argument or result of a block's function is: the attribute `train.role` has one of these strings.
namespace role {
constexpr llvm::StringLiteral attribute = "train.role";
constexpr llvm::StringLiteral parameterAttribute = "train.parameter"; // with `parameter` or `gradient`: its number
constexpr llvm::StringLiteral trainableAttribute = "train.trainable"; // unit; with `parameter`
constexpr llvm::StringLiteral activation = "activation";
constexpr llvm::StringLiteral cotangent = "cotangent";
constexpr llvm::StringLiteral tokenIds = "token_ids";
constexpr llvm::StringLiteral labels = "labels";
constexpr llvm::StringLiteral objectiveScale = "objective_scale";
constexpr llvm::StringLiteral parameter = "parameter";
constexpr llvm::StringLiteral gradient = "gradient";
constexpr llvm::StringLiteral loss = "loss";
constexpr llvm::StringLiteral logits = "logits";
} // namespace role

llvm::StringRef getArgumentRole(mlir::func::FuncOp function, unsigned index);
llvm::StringRef getResultRole(mlir::func::FuncOp function, unsigned index);
void setArgumentRole(mlir::func::FuncOp function, unsigned index, llvm::StringRef value);
void setResultRole(mlir::func::FuncOp function, unsigned index, llvm::StringRef value);

/// The number of the block parameter that an argument or result stands for.
unsigned getArgumentParameter(mlir::func::FuncOp function, unsigned index);
unsigned getResultParameter(mlir::func::FuncOp function, unsigned index);
bool isTrainable(mlir::func::FuncOp function, unsigned argument);

} // namespace mebp::train
