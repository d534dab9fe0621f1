// SPDX-License-Identifier: Apache-2.0
//
// The text of a kernel call: "linear"(x = %0, w = %1, addend = %2).
#pragma once

#include "dialects/exec/Exec.h"

namespace mebp::exec {

void printCall(mlir::OpAsmPrinter &printer, KernelOp op, mlir::StringAttr kernel, mlir::OperandRange inputs,
               mlir::DenseI32ArrayAttr slots);
mlir::ParseResult parseCall(mlir::OpAsmParser &parser, mlir::StringAttr &kernel,
                            llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &inputs,
                            mlir::DenseI32ArrayAttr &slots);

} // namespace mebp::exec
