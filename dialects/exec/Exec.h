// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"

#include "dialects/exec/ExecDialect.h.inc"
#include "dialects/exec/ExecEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttributes.h.inc"
namespace mebp::exec {
class ReturnOp;
}
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.h.inc"

namespace mebp::exec {

/// The values of a program in the order in which program.pb counts them: inputs, then op by op; a loop's carried
/// arguments and body come before its results. Trips have no number.
llvm::SmallVector<mlir::Value> numberValues(ProgramOp program);

/// The program's loops in the order of their numbers.
llvm::SmallVector<train::LoopOp> numberLoops(ProgramOp program);

/// The value that a chain of slices looks into; a value that is no slice is its own root.
mlir::Value getRoot(mlir::Value value);

/// The name of the block's parameter that a value is, or is a slice of.
std::optional<llvm::StringRef> getParameter(ProgramOp program, mlir::Value value);

/// The bytes that a value takes at its largest.
uint64_t sizeInBytes(mlir::Value value);

/// How much of a value's rows and columns is live.
struct Extents {
  Extent rows = Extent::Whole, columns = Extent::Whole;
};
Extents getExtents(mlir::Value value);

/// Whether a loop runs over tokens, not over a weight's rows.
bool isOverTokens(train::LoopOp loop);

} // namespace mebp::exec
