// SPDX-License-Identifier: Apache-2.0
//
// Which rows of tokens an op uses: what SequenceOpInterface says. Cutting the sequence into chunks, deciding what
// belongs to a layer, and adding up gradients ask nothing else.
#pragma once

#include "mlir/IR/Operation.h"

namespace mebp::nn {

/// Of an op that computes some rows. As operand, what it reads; as result, what it writes or adds to.
enum class SequenceUse {
  None,       // no rows of tokens: a weight, a number
  Rows,       // the same rows
  Before,     // the same rows and all earlier ones
  Everything, // all rows
  Sum,        // as result: a sum over the rows, without rows of its own. As operand: what such a result is added to
  Carried,    // what row after row carries on. As result: what the last row leaves; as operand: what it begins with
  CarriedBack // likewise, from later rows to earlier ones
};

struct SequenceUses {
  llvm::SmallVector<SequenceUse> operands, results; // one for each of the op's
};

/// By the letters of the slots of the op's kernel in format/kernels.h: S is everything, or everything before where the
/// kernel is causal. All else that has rows is row by row, and so is an op without a kernel. A result without rows, of
/// operands that have some, is a sum.
SequenceUses deriveSequenceUses(mlir::Operation *op);

inline bool isCarried(SequenceUse use) { return use == SequenceUse::Carried || use == SequenceUse::CarriedBack; }

/// The results that are sums over rows.
llvm::SmallVector<mlir::OpResult> getSums(mlir::Operation *op);

/// How many rows a causal op reads of those before, its own among them: its attribute `window`. 0: all.
int64_t getWindow(mlir::Operation *op);

/// Whether it reads or writes rows beside its own. What adds up all rows does not.
bool mixesRows(mlir::Operation *op);

} // namespace mebp::nn
