// SPDX-License-Identifier: Apache-2.0
//
// Norms: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Norms.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Linear.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNNormOps.cpp.inc"

void NNDialect::registerNorms() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNNormOps.cpp.inc"
      >();
}

namespace {

LogicalResult checkNorm(Operation *op, Value x, Value weight) {
  int64_t group = features(weight);
  if (group <= 0 || features(x) % group)
    return op->emitOpError() << "has a weight of " << group << " elements, which do not divide the " << features(x)
                             << " features of 'x'";
  return success();
}

} // namespace

LogicalResult RmsNormOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult RmsNormInputGradientOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult RmsNormWeightGradientOp::verify() { return checkNorm(*this, getX(), getResult()); }
LogicalResult LayerNormOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult LayerNormInputGradientOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult LayerNormWeightGradientOp::verify() { return checkNorm(*this, getX(), getResult()); }

// Uses x; the norm itself is recomputed inside the kernel.
LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                       MutableArrayRef<Value> gradients) {
  if (wanted.test(0))
    gradients[0] = RmsNormInputGradientOp::create(builder, getLoc(), getX().getType(), getX(), getWeight(),
                                                  cotangents[0], getEpsilonAttr(), getWeightOffsetAttr());
  if (wanted.test(1))
    gradients[1] = RmsNormWeightGradientOp::create(builder, getLoc(), getWeight().getType(), getX(), cotangents[0],
                                                   Value(), getEpsilonAttr());
  return success();
}

// Uses x; mean and deviation are recomputed inside the kernel.
LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                         MutableArrayRef<Value> gradients) {
  if (wanted.test(0))
    gradients[0] = LayerNormInputGradientOp::create(builder, getLoc(), getX().getType(), getX(), getWeight(),
                                                    cotangents[0], getEpsilonAttr(), getWeightOffsetAttr());
  if (wanted.test(1))
    gradients[1] = LayerNormWeightGradientOp::create(builder, getLoc(), getWeight().getType(), getX(), cotangents[0],
                                                     Value(), getEpsilonAttr());
  if (getBias() && wanted.test(2)) {
    Value dy = cotangents[0];
    if (features(getBias()) != features(dy)) // each group has added it; their sum is rounded as dy is
      dy = RepeatGradientOp::create(builder, getLoc(),
                                    getTokensType(features(getBias()), getElementTypeOrSelf(dy.getType())), dy);
    gradients[2] = BiasGradientOp::create(builder, getLoc(), getBias().getType(), dy, Value());
  }
  return success();
}
