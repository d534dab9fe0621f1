// SPDX-License-Identifier: Apache-2.0
//
// Products with a weight: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Linear.h"

#include "dialects/nn/Checks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNLinearOps.cpp.inc"

void NNDialect::registerLinear() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNLinearOps.cpp.inc"
      >();
}

void LinearOp::build(OpBuilder &builder, OperationState &state, Type type, Value x, Value weight, Value bias,
                     Value addend, float alpha) {
  build(builder, state, type, x, weight, bias, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr());
}
LogicalResult LinearOp::verify() { return checkLow(*this, getLow(), getLowWeight()); }
void LinearInputGradientOp::build(OpBuilder &builder, OperationState &state, Type type, Value dy, Value weight,
                                  Value addend, float alpha) {
  build(builder, state, type, dy, weight, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr(),
        UnitAttr());
}
LogicalResult LinearInputGradientOp::verify() { return checkLow(*this, getLow(), getLowWeight()); }

static LogicalResult refuseLow(Operation *op) {
  return op->emitError() << "'" << op->getName() << "' has no gradient rule for its product of low rank: "
                         << "differentiate before mebp-fuse-addends";
}

// Uses x for dw, the weight for dx. Never forms dw of a frozen weight: nobody asks for it.
LogicalResult LinearOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                      MutableArrayRef<Value> gradients) {
  if (getLow())
    return refuseLow(*this);
  Value dy = cotangents[0];
  float alpha = getAlpha().convertToFloat();
  unsigned next = 0;
  if (wanted.test(next))
    gradients[next] =
        LinearInputGradientOp::create(builder, getLoc(), getX().getType(), dy, getWeight(), Value(), alpha);
  ++next;
  if (wanted.test(next))
    gradients[next] =
        LinearWeightGradientOp::create(builder, getLoc(), getWeight().getType(), dy, getX(), Value(), getAlphaAttr());
  ++next;
  if (getBias() && wanted.test(next++))
    gradients[next - 1] = BiasGradientOp::create(builder, getLoc(), getBias().getType(), dy, Value());
  if (getAddend() && wanted.test(next))
    gradients[next] = dy;
  return success();
}

// Uses dy for dw, the weight for ddy.
LogicalResult LinearInputGradientOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents,
                                                   const SmallBitVector &wanted, MutableArrayRef<Value> gradients) {
  if (getLow())
    return refuseLow(*this);
  Value ofResult = cotangents[0];
  if (wanted.test(0))
    gradients[0] = LinearOp::create(builder, getLoc(), getDy().getType(), ofResult, getWeight(), Value(), Value(),
                                    getAlpha().convertToFloat());
  if (wanted.test(1))
    gradients[1] = LinearWeightGradientOp::create(builder, getLoc(), getWeight().getType(), getDy(), ofResult, Value(),
                                                  getAlphaAttr());
  if (getAddend() && wanted.test(2))
    gradients[2] = ofResult;
  return success();
}
