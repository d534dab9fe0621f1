// SPDX-License-Identifier: Apache-2.0
//
// The nn dialect: verifiers, and which memory a kernel's result may share. Gradient rules are in NNGradients.cpp.
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
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNOps.cpp.inc"
      >();
}

//===- Verifiers -------------------------------------------------------------------------------------------------===//

namespace {

/// Checks that value's size `axis` (from the back) is `expected`; a size known at run time only agrees with any.
LogicalResult checkSize(Operation *op, Value value, StringRef name, unsigned axis, int64_t expected) {
  if (!value)
    return success();
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  if (shape.size() <= axis)
    return op->emitOpError() << "'" << name << "' needs at least " << axis + 1 << " dimensions, but is "
                             << value.getType();
  int64_t size = shape[shape.size() - 1 - axis];
  if (ShapedType::isDynamic(size) || ShapedType::isDynamic(expected) || size == expected)
    return success();
  return op->emitOpError() << "'" << name << "' has size " << size << " where " << expected
                           << " is needed: " << value.getType();
}

LogicalResult checkFeatures(Operation *op, Value value, StringRef name, int64_t expected) {
  return checkSize(op, value, name, 0, expected);
}

/// A product of low rank has both factors; the rank is `weight`'s size `axis`.
LogicalResult checkLow(Operation *op, Value low, Value weight, unsigned axis) {
  if (!low != !weight)
    return op->emitOpError() << "has one of 'low' and 'low_weight'; give both or none";
  return low ? checkSize(op, weight, "low_weight", axis, features(low)) : success();
}

int64_t rows(Value weight) { return cast<RankedTensorType>(weight.getType()).getShape().front(); }

LogicalResult checkHeads(Operation *op, Value q, Value k, Value v, int64_t heads, int64_t kvHeads) {
  if (heads <= 0 || kvHeads <= 0 || heads % kvHeads)
    return op->emitOpError() << "has " << heads << " heads, which " << kvHeads << " key and value heads do not divide";
  if (features(q) % heads)
    return op->emitOpError() << "has " << heads << " heads, which do not divide the " << features(q)
                             << " features of 'q'";
  int64_t size = features(q) / heads;
  return success(succeeded(checkFeatures(op, k, "k", size * kvHeads)) &&
                 succeeded(checkFeatures(op, v, "v", size * kvHeads)));
}

LogicalResult checkNorm(Operation *op, Value x, Value weight) {
  int64_t group = features(weight);
  if (group <= 0 || features(x) % group)
    return op->emitOpError() << "has a weight of " << group << " elements, which do not divide the " << features(x)
                             << " features of 'x'";
  return success();
}

LogicalResult checkGate(Operation *op, StringRef activation) {
  if (activation == "silu" || activation == "gelu" || activation == "gelu_tanh")
    return success();
  return op->emitOpError() << "has activation '" << activation << "'; known are silu, gelu and gelu_tanh";
}

} // namespace

LogicalResult ParameterOp::verify() {
  if (getTrainable() && getData())
    return emitOpError("is trainable and has external data; a trainable parameter starts from 'initial_bound'");
  return success();
}
LogicalResult EmbeddingOp::verify() { return checkFeatures(*this, getResult(), "result", features(getWeight())); }
LogicalResult PositionEmbeddingOp::verify() {
  return checkFeatures(*this, getResult(), "result", features(getWeight()));
}
void LinearOp::build(OpBuilder &builder, OperationState &state, Type type, Value x, Value weight, Value bias,
                     Value addend, float alpha) {
  build(builder, state, type, x, weight, bias, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr());
}
LogicalResult LinearOp::verify() {
  int64_t outputs = rows(getWeight());
  return success(succeeded(checkLow(*this, getLow(), getLowWeight(), 0)) &&
                 succeeded(checkSize(*this, getLowWeight(), "low_weight", 1, outputs)) &&
                 succeeded(checkFeatures(*this, getX(), "x", features(getWeight()))) &&
                 succeeded(checkFeatures(*this, getResult(), "result", outputs)) &&
                 succeeded(checkFeatures(*this, getBias(), "bias", outputs)) &&
                 succeeded(checkFeatures(*this, getAddend(), "addend", outputs)));
}
void LinearInputGradientOp::build(OpBuilder &builder, OperationState &state, Type type, Value dy, Value weight,
                                  Value addend, float alpha) {
  build(builder, state, type, dy, weight, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr(),
        UnitAttr());
}
LogicalResult LinearInputGradientOp::verify() {
  int64_t inputs = features(getWeight());
  return success(succeeded(checkLow(*this, getLow(), getLowWeight(), 1)) &&
                 succeeded(checkSize(*this, getLowWeight(), "low_weight", 0, inputs)) &&
                 succeeded(checkFeatures(*this, getDy(), "dy", rows(getWeight()))) &&
                 succeeded(checkFeatures(*this, getResult(), "result", inputs)) &&
                 succeeded(checkFeatures(*this, getAddend(), "addend", inputs)));
}
LogicalResult LinearWeightGradientOp::verify() {
  for (Value matrix : {Value(getResult()), Value(getAccumulator())})
    if (matrix && (failed(checkSize(*this, matrix, "result", 1, features(getDy()))) ||
                   failed(checkSize(*this, matrix, "result", 0, features(getX())))))
      return failure();
  return success();
}
LogicalResult RmsNormOp::verify() {
  return success(succeeded(checkNorm(*this, getX(), getWeight())) &&
                 succeeded(checkFeatures(*this, getResult(), "result", features(getX()))));
}
LogicalResult RmsNormInputGradientOp::verify() {
  return success(succeeded(checkNorm(*this, getX(), getWeight())) &&
                 succeeded(checkFeatures(*this, getDy(), "dy", features(getX()))) &&
                 succeeded(checkFeatures(*this, getResult(), "result", features(getX()))));
}
LogicalResult LayerNormOp::verify() {
  return success(succeeded(checkFeatures(*this, getWeight(), "weight", features(getX()))) &&
                 succeeded(checkFeatures(*this, getBias(), "bias", features(getX()))) &&
                 succeeded(checkFeatures(*this, getResult(), "result", features(getX()))));
}
LogicalResult LayerNormInputGradientOp::verify() {
  return success(succeeded(checkFeatures(*this, getWeight(), "weight", features(getX()))) &&
                 succeeded(checkFeatures(*this, getDy(), "dy", features(getX()))) &&
                 succeeded(checkFeatures(*this, getResult(), "result", features(getX()))));
}
LogicalResult RopeOp::verify() {
  int64_t size = getHeadDim();
  if (size <= 0 || features(getX()) % size)
    return emitOpError() << "has heads of " << size << ", which do not divide the " << features(getX())
                         << " features of 'x'";
  if (static_cast<int64_t>(getFrequencies().size()) * 2 > size)
    return emitOpError() << "has " << getFrequencies().size() << " frequencies; a head of " << size << " has room for "
                         << size / 2;
  return checkFeatures(*this, getResult(), "result", features(getX()));
}
LogicalResult AttentionOp::verify() {
  if (failed(checkHeads(*this, getQ(), getK(), getV(), getHeads(), getKvHeads())))
    return failure();
  return success(succeeded(checkFeatures(*this, getOutput(), "output", features(getQ()))) &&
                 succeeded(checkFeatures(*this, getLse(), "lse", getHeads())));
}
LogicalResult AttentionGradientOp::verify() {
  if (!getDkAccumulator() != !getDvAccumulator())
    return emitOpError("has one of its two accumulators; give both or none");
  if (failed(checkHeads(*this, getQ(), getK(), getV(), getHeads(), getKvHeads())) ||
      failed(checkFeatures(*this, getLse(), "lse", getHeads())))
    return failure();
  int64_t queries = features(getQ()), keys = features(getK());
  return success(succeeded(checkFeatures(*this, getO(), "o", queries)) &&
                 succeeded(checkFeatures(*this, getCotangent(), "cotangent", queries)) &&
                 succeeded(checkFeatures(*this, getDq(), "dq", queries)) &&
                 succeeded(checkFeatures(*this, getDk(), "dk", keys)) &&
                 succeeded(checkFeatures(*this, getDv(), "dv", keys)) &&
                 succeeded(checkFeatures(*this, getDkAccumulator(), "dk_accumulator", keys)) &&
                 succeeded(checkFeatures(*this, getDvAccumulator(), "dv_accumulator", keys)));
}
LogicalResult SiluOp::verify() { return success(); }
LogicalResult SiluGradientOp::verify() { return success(); }
LogicalResult ReluOp::verify() { return success(); }
LogicalResult ReluGradientOp::verify() { return success(); }
LogicalResult GeluOp::verify() {
  return getApproximation() <= 1 ? success() : emitOpError("has an approximation that is neither 0 (erf) nor 1 (tanh)");
}
LogicalResult GeluGradientOp::verify() { return success(); }
LogicalResult GatedOp::verify() { return checkGate(*this, getActivation()); }
LogicalResult GatedGradientOp::verify() { return checkGate(*this, getActivation()); }
LogicalResult AddOp::verify() { return success(); }
LogicalResult MultiplyOp::verify() { return success(); }
LogicalResult ScaleOp::verify() { return success(); }
LogicalResult SplitOp::verify() {
  int64_t sum = 0;
  for (Value part : getResults())
    sum += features(part);
  return checkFeatures(*this, getX(), "x", sum);
}
LogicalResult ConcatOp::verify() {
  int64_t sum = 0;
  for (Value part : getParts())
    sum += features(part);
  return checkFeatures(*this, getResult(), "result", sum);
}
LogicalResult FillOp::verify() { return success(); }
LogicalResult LinearCrossEntropyOp::verify() { return checkFeatures(*this, getX(), "x", features(getWeight())); }
LogicalResult LinearCrossEntropyGradientOp::verify() {
  return success(succeeded(checkFeatures(*this, getX(), "x", features(getWeight()))) &&
                 succeeded(checkFeatures(*this, getDx(), "dx", features(getX()))));
}
LogicalResult CrossEntropyTileOp::verify() {
  if (!getAccumulator() != !getNewAccumulator())
    return emitOpError("has an accumulator as operand or as result only; give both or none");
  return success();
}
LogicalResult CrossEntropyOp::verify() {
  if (!getAccumulator() != !getDx() || !getAccumulator() != !getWeight())
    return emitOpError("needs 'accumulator', 'weight' and the result 'dx' together, or none of them");
  return success();
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

//===- Shared memory ---------------------------------------------------------------------------------------------===//

// Every result needs a whole row of the factor: an addend that is the factor too has to stay.
Value LinearOp::getReusable(unsigned) {
  return getAddend() == getX() || getAddend() == getLow() ? Value() : getAddend();
}
Value LinearInputGradientOp::getReusable(unsigned) {
  return getAddend() == getDy() || getAddend() == getLow() ? Value() : getAddend();
}
Value LinearWeightGradientOp::getAccumulator(unsigned) { return getAccumulator(); }
Value LinearWeightGradientOp::getReusable(unsigned) { return {}; }
Value RmsNormOp::getReusable(unsigned) { return getX(); }
Value RmsNormInputGradientOp::getReusable(unsigned) { return getDy(); }
Value LayerNormOp::getReusable(unsigned) { return getX(); }
Value LayerNormInputGradientOp::getReusable(unsigned) { return getDy(); }
Value RopeOp::getReusable(unsigned) { return getX(); }
Value AttentionGradientOp::getAccumulator(unsigned result) {
  return result == 1 ? getDkAccumulator() : result == 2 ? getDvAccumulator() : Value();
}
Value AttentionGradientOp::getReusable(unsigned) { return {}; }
Value SiluOp::getReusable(unsigned) { return getX(); }
Value SiluGradientOp::getReusable(unsigned) { return getDy(); }
Value ReluOp::getReusable(unsigned) { return getX(); }
Value ReluGradientOp::getReusable(unsigned) { return getDy(); }
Value GeluOp::getReusable(unsigned) { return getX(); }
Value GeluGradientOp::getReusable(unsigned) { return getDy(); }
Value GatedOp::getReusable(unsigned) { return getUp(); }
Value GatedGradientOp::getReusable(unsigned result) { return result == 0 ? getGate() : getDy(); }
Value AddOp::getReusable(unsigned) { return getA(); }
Value MultiplyOp::getReusable(unsigned) { return getA(); }
Value ScaleOp::getReusable(unsigned) { return getX(); }
Value CrossEntropyTileOp::getAccumulator(unsigned result) {
  switch (result) {
  case 1:
    return getMax();
  case 2:
    return getSum();
  case 3:
    return getTarget();
  case 4:
    return getAccumulator();
  default:
    return {};
  }
}
Value CrossEntropyTileOp::getReusable(unsigned result) { return result == 0 ? getLogits() : Value(); }
Value CrossEntropyOp::getAccumulator(unsigned result) { return result == 0 ? getLossAccumulator() : Value(); }
Value CrossEntropyOp::getReusable(unsigned result) { return result == 1 ? getAccumulator() : Value(); }

//===- What may not be rounded -----------------------------------------------------------------------------------===//

// Statistics of the softmax, sums over many tokens, and what is computed from logits.
SmallVector<Value> AttentionOp::getExactValues() { return {getLse()}; }
SmallVector<Value> AttentionGradientOp::getExactValues() {
  return {getLse(), getDkAccumulator(), getDvAccumulator(), getDk(), getDv()};
}
SmallVector<Value> LinearWeightGradientOp::getExactValues() { return {getAccumulator(), getResult()}; }
SmallVector<Value> CrossEntropyTileOp::getExactValues() {
  SmallVector<Value> values(getOperands());
  values.append(getResults().begin(), getResults().end());
  return values;
}
SmallVector<Value> CrossEntropyOp::getExactValues() {
  SmallVector<Value> values(getOperands());
  values.append(getResults().begin(), getResults().end());
  return values;
}
