// SPDX-License-Identifier: Apache-2.0
//
// Sums, products and parts of rows: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Arithmetic.h"

#include "dialects/nn/Checks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNArithmeticOps.cpp.inc"

void NNDialect::registerArithmetic() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNArithmeticOps.cpp.inc"
      >();
}

namespace {

/// The parts that groups of features are cut into, or made of.
LogicalResult checkParts(Operation *op, Value whole, StringRef name, ValueRange parts, int64_t groups) {
  int64_t sum = 0;
  for (Value part : parts) {
    sum += features(part);
    if (groups <= 0 || features(part) % groups)
      return op->emitOpError() << "has " << groups << " groups, which do not divide the " << features(part)
                               << " features of a part";
  }
  return checkFeatures(op, whole, name, sum);
}

LogicalResult checkRepeated(Operation *op, Value one, Value all) {
  if (features(one) > 0 && features(all) % features(one) == 0)
    return success();
  return op->emitOpError() << "has " << features(all) << " features, which do not repeat " << features(one);
}

} // namespace

LogicalResult DropoutOp::verify() {
  const float p = getP().convertToFloat();
  if (p >= 0 && p < 1)
    return success();
  return emitOpError() << "has a p of " << p << "; a number from 0 to below 1 is needed";
}
LogicalResult SplitOp::verify() { return checkParts(*this, getX(), "x", getResults(), getGroups().value_or(1)); }
LogicalResult ConcatOp::verify() {
  return checkParts(*this, getResult(), "result", getParts(), getGroups().value_or(1));
}
LogicalResult RepeatOp::verify() { return checkRepeated(*this, getX(), getResult()); }
LogicalResult RepeatGradientOp::verify() { return checkRepeated(*this, getResult(), getDy()); }

LogicalResult AddOp::buildGradient(OpBuilder &, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                   MutableArrayRef<Value> gradients) {
  for (unsigned i = 0; i < 2; ++i)
    if (wanted.test(i))
      gradients[i] = cotangents[0];
  return success();
}

// Uses the other factor.
LogicalResult MultiplyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                        MutableArrayRef<Value> gradients) {
  if (wanted.test(0))
    gradients[0] = MultiplyOp::create(builder, getLoc(), getA().getType(), cotangents[0], getB());
  if (wanted.test(1))
    gradients[1] = MultiplyOp::create(builder, getLoc(), getB().getType(), cotangents[0], getA());
  return success();
}

LogicalResult ScaleOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                     MutableArrayRef<Value> gradients) {
  if (wanted.test(0))
    gradients[0] = ScaleOp::create(builder, getLoc(), getX().getType(), cotangents[0], getAlphaAttr(), FloatAttr());
  return success();
}

LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &,
                                       MutableArrayRef<Value> gradients) {
  gradients[0] = DropoutOp::create(builder, getLoc(), getX().getType(), cotangents[0], getPAttr(), getSaltAttr());
  return success();
}

// A part that nothing depends on has a cotangent of zeros.
LogicalResult SplitOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &,
                                     MutableArrayRef<Value> gradients) {
  SmallVector<Value> parts;
  for (auto [part, cotangent] : llvm::zip(getResults(), cotangents)) {
    Value value = cotangent;
    if (!value)
      value = FillOp::create(builder, getLoc(), part.getType(), builder.getF32FloatAttr(0.0f));
    parts.push_back(value);
  }
  gradients[0] = ConcatOp::create(builder, getLoc(), getX().getType(), parts, getGroupsAttr());
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                      MutableArrayRef<Value> gradients) {
  auto split = SplitOp::create(builder, getLoc(), getParts().getTypes(), cotangents[0], getGroupsAttr());
  for (auto [i, part] : llvm::enumerate(split.getResults()))
    if (wanted.test(i))
      gradients[i] = part;
  return success();
}

LogicalResult RepeatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &,
                                      MutableArrayRef<Value> gradients) {
  gradients[0] = RepeatGradientOp::create(builder, getLoc(), getX().getType(), cotangents[0]);
  return success();
}
