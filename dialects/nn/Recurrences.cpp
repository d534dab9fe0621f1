// SPDX-License-Identifier: Apache-2.0
//
// Recurrences: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Recurrences.h"

#include "dialects/nn/Linear.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNRecurrenceOps.cpp.inc"

void NNDialect::registerRecurrences() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNRecurrenceOps.cpp.inc"
      >();
}

static int64_t getWidth(Value weight) { return cast<RankedTensorType>(weight.getType()).getDimSize(1); }

/// Of a convolution: what it carries are all rows but one that it reads.
static LogicalResult checkConvolution(Operation *op, Value weight, Value next) {
  const int64_t width = getWidth(weight);
  if (width < 2)
    return op->emitOpError() << "has a width of " << width << "; at least 2 is needed";
  const int64_t rows = cast<RankedTensorType>(next.getType()).getShape().drop_back().back();
  if (rows != width - 1)
    return op->emitOpError() << "carries " << rows << " rows beside a width of " << width;
  return success();
}

LogicalResult CausalConvOp::verify() { return checkConvolution(*this, getW(), getNext()); }
LogicalResult CausalConvInputGradientOp::verify() { return checkConvolution(*this, getW(), getNext()); }

// Uses x, where the weight is trained.
LogicalResult CausalConvOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                          MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitError("'nn.causal_conv' has no gradient rule for 'next'");
  if (wanted.test(0)) {
    auto gradient = CausalConvInputGradientOp::create(builder, getLoc(), getX().getType(), getNext().getType(),
                                                      cotangents[0], getW(), Value(), getStarts());
    gradients[0] = gradient.getDx();
  }
  if (wanted.test(1))
    gradients[1] = CausalConvWeightGradientOp::create(builder, getLoc(), getW().getType(), cotangents[0], getX(),
                                                      Value(), getStarts());
  if (getBias() && wanted.test(2))
    gradients[2] = BiasGradientOp::create(builder, getLoc(), getBias().getType(), cotangents[0], Value());
  return success();
}
