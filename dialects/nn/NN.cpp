// SPDX-License-Identifier: Apache-2.0
//
// The nn dialect. Its ops, with what they check beyond shapes (Kernels.cpp) and their gradient rules, are in a file for
// each subject.
#include "dialects/nn/NN.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mebp::nn;

#include "dialects/nn/NNDialect.cpp.inc"
#include "dialects/nn/NNInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttributes.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttributes.cpp.inc"
      >();
  registerParameters();
  registerRecurrences();
  registerImportOps();
  registerEmbeddings();
  registerLinear();
  registerNorms();
  registerAttention();
  registerActivations();
  registerArithmetic();
  registerExperts();
  registerHead();
}

LogicalResult TokensAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() == 3 && ShapedType::isDynamic(shape[0]))
    return success();
  return emitError() << "#nn.tokens is of tensors ?x?xF, or ?xNxF for a state: the batch is known at run time";
}
