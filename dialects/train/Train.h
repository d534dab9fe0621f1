// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/NN.h"
#include "format/ports.h"
#include "format/programs.h"
#include "format/projection.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "dialects/train/TrainDialect.h.inc"
#include "dialects/train/TrainEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/train/TrainAttributes.h.inc"
namespace mebp::train {
class YieldOp;
}
#define GET_OP_CLASSES
#include "dialects/train/TrainOps.h.inc"

namespace mebp::train {

/// What a block before the head runs forward, in its order; the forward itself in any case. Nothing of the head.
llvm::SmallVector<format::ProgramTraits> getForwardPrograms(BlockOp block);

/// The number of the first block that binds a parameter that is trained: the backward ends there. 0 where none does.
unsigned findLowestTrained(mlir::ModuleOp module);

/// What an argument or result of a block's function is: its `train.port`. Null where it has none.
PortAttr getArgumentPort(mlir::func::FuncOp function, unsigned index);
PortAttr getResultPort(mlir::func::FuncOp function, unsigned index);
void setArgumentPort(mlir::func::FuncOp function, unsigned index, PortKind kind, llvm::StringRef name);
void setResultPort(mlir::func::FuncOp function, unsigned index, PortKind kind, llvm::StringRef name);

/// Whether an argument is a parameter that is trained: its `train.trainable`.
bool isTrainable(mlir::func::FuncOp function, unsigned argument);
void setTrainable(mlir::func::FuncOp function, unsigned argument);

/// The most rows of tokens that a function is run with: its `train.rows`. Without one, those of the largest step.
std::optional<int64_t> getTokenRows(mlir::func::FuncOp function);
void setTokenRows(mlir::func::FuncOp function, int64_t rows);

} // namespace mebp::train
