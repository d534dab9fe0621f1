// SPDX-License-Identifier: Apache-2.0
//
// What format/kernels.h says of an nn op: KernelOpInterface's methods and verifier.
#pragma once

#include "format/kernels.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace mebp::nn {

/// The signature of the kernel of the op's name.
const format::KernelSignature &getSignature(mlir::Operation *op);

/// The operand for each slot of the signature; null where an optional one is absent. Of a kernel with any number of
/// operands: these.
llvm::SmallVector<mlir::Value> getSlotOperands(mlir::Operation *op);

/// Makes `value` the operand of that slot; null: takes it away where it is optional.
void setSlotOperand(mlir::Operation *op, size_t slot, mlir::Value value);

/// The slot of an op's operand of that name, or format::noSlot.
int findSlot(mlir::Operation *op, std::string_view name);

/// Whether it is a product with a weight, which may be trained.
bool isProduct(mlir::Operation *op);

/// Checks that a letter of the signature has one size wherever it stands; a size known at run time only agrees with
/// any.
llvm::LogicalResult verifyShapes(mlir::Operation *op);

} // namespace mebp::nn
