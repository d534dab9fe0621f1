// SPDX-License-Identifier: Apache-2.0
//
// What only the import knows.
#include "dialects/nn/ImportOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;

#define GET_OP_CLASSES
#include "dialects/nn/NNImportOps.cpp.inc"

void NNDialect::registerImportOps() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNImportOps.cpp.inc"
      >();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
