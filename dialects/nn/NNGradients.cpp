// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules: the pullback of each differentiable op. A rule names the forward values it uses again; those are what
// a backward block recomputes. Terms: cotangent = dL/d(value); `wanted` = the operands whose cotangent is asked for.
#include "dialects/nn/NN.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

// Uses the ids.
LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                         MutableArrayRef<Value> gradients) {
  if (wanted.test(1))
    gradients[1] =
        EmbeddingWeightGradientOp::create(builder, getLoc(), getWeight().getType(), getIds(), cotangents[0], Value());
  return success();
}

LogicalResult PositionEmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &,
                                                 MutableArrayRef<Value> gradients) {
  gradients[0] = PositionEmbeddingWeightGradientOp::create(builder, getLoc(), getWeight().getType(), cotangents[0],
                                                           Value(), getStarts(), getOffsetAttr());
  return success();
}

// Uses x for dw, the weight for dx. Never forms dw of a frozen weight: nobody asks for it.
LogicalResult LinearOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                      MutableArrayRef<Value> gradients) {
  if (getLow())
    return emitError() << "'" << getOperationName() << "' has no gradient rule for its product of low rank: "
                       << "differentiate before mebp-fuse-addends";
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

// Uses nothing: a rotation's pullback is the rotation back.
LogicalResult RopeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                    MutableArrayRef<Value> gradients) {
  if (wanted.test(0))
    gradients[0] =
        RopeOp::create(builder, getLoc(), getX().getType(), cotangents[0], getStarts(), getHeadDimAttr(),
                       getFrequenciesAttr(), getScaleAttr(), builder.getBoolAttr(!getInverse()), getInterleavedAttr());
  return success();
}

// Uses q, k, v, the output and lse: probabilities are recomputed tile by tile. With sinks they add up to less than one,
// and the rule is the same: rowsum(dO · o) is still Σ p dp.
LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                         MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitError("'nn.attention' has no gradient rule for 'lse'");
  if (getSinks() && wanted.test(getStarts() ? 4 : 3))
    return emitError("'nn.attention' has no gradient rule for its sinks; leave them frozen");
  auto gradient = AttentionGradientOp::create(builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
                                              getQ(), getK(), getV(), getOutput(), getLse(), cotangents[0], Value(),
                                              Value(), getStarts(), getHeadsAttr(), getKvHeadsAttr(), getScaleAttr(),
                                              getWindowAttr(), getSoftcapAttr(), getSlopesAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (wanted.test(i))
      gradients[i] = gradient.getResult(i);
  return success();
}

// As attention does. The cotangents of what samples are laid out by are nothing.
LogicalResult BidirectionalAttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents,
                                                      const SmallBitVector &wanted, MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitError("'nn.bidirectional_attention' has no gradient rule for 'lse'");
  auto gradient = BidirectionalAttentionGradientOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(), getQ(), getK(), getV(), getOutput(),
      getLse(), cotangents[0], Value(), Value(), getStarts(), getEnds(), getHeadsAttr(), getKvHeadsAttr(),
      getScaleAttr(), getWindowAttr(), getSoftcapAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (wanted.test(i))
      gradients[i] = gradient.getResult(i);
  return success();
}

// Each activation uses its input; NNActivationOps.td makes the rules.
Value mebp::nn::buildActivationGradient(OpBuilder &builder, Operation *activation, Value cotangent) {
  Value x = activation->getOperand(0);
  OperationState state(activation->getLoc(), (activation->getName().getStringRef() + "_gradient").str(), {x, cotangent},
                       x.getType(), activation->getAttrs());
  return builder.create(state)->getResult(0);
}

LogicalResult XieluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                     MutableArrayRef<Value> gradients) {
  if (wanted.test(1) || wanted.test(2))
    return emitError("'nn.xielu' has no gradient rule for its alphas; leave them frozen");
  gradients[0] = XieluGradientOp::create(builder, getLoc(), getX().getType(), getX(), cotangents[0], getAlphaP(),
                                         getAlphaN(), getBetaAttr(), getEpsilonAttr());
  return success();
}

// Uses gate and up, not the product.
LogicalResult GatedOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                     MutableArrayRef<Value> gradients) {
  auto gradient = GatedGradientOp::create(builder, getLoc(), getGate().getType(), getUp().getType(), getGate(), getUp(),
                                          cotangents[0], getActivationAttr());
  for (unsigned i = 0; i < 2; ++i)
    if (wanted.test(i))
      gradients[i] = gradient.getResult(i);
  return success();
}

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

// Uses all of its operands: the softmax is computed again. Where the entropy has no cotangent, nothing is asked of it.
LogicalResult LogProbabilityOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents,
                                              const SmallBitVector &wanted, MutableArrayRef<Value> gradients) {
  Value x = getX(), weight = getWeight(), low = getLow(), lowWeight = getLowWeight(), bias = getBias();
  Value coefficients = cotangents[0];
  if (!coefficients)
    coefficients = FillOp::create(builder, getLoc(), getLogProbabilities().getType(), builder.getF32FloatAttr(0.0f));
  auto gradient = LogProbabilityGradientOp::create(
      builder, getLoc(), getLogProbabilities().getType(), getEntropy().getType(), x.getType(), x, weight, getLabels(),
      coefficients, cotangents[1], low, lowWeight, bias, getLowAlphaAttr(), getSoftcapAttr());
  gradients[0] = gradient.getDx();
  if (wanted.test(1))
    gradients[1] = LogProbabilityWeightGradientOp::create(builder, getLoc(), weight.getType(), x, weight, getLabels(),
                                                          coefficients, cotangents[1], low, lowWeight, bias,
                                                          getLowAlphaAttr(), getSoftcapAttr());
  if (const unsigned place = low ? 5 : 3; bias && wanted.test(place))
    gradients[place] =
        LogProbabilityBiasGradientOp::create(builder, getLoc(), bias.getType(), x, weight, getLabels(), coefficients,
                                             cotangents[1], low, lowWeight, bias, getLowAlphaAttr(), getSoftcapAttr());
  if (low && (wanted.test(3) || wanted.test(4))) {
    auto ofLow = LogProbabilityLowGradientOp::create(builder, getLoc(), low.getType(), lowWeight.getType(), x, weight,
                                                     getLabels(), coefficients, cotangents[1], low, lowWeight, bias,
                                                     getLowAlphaAttr(), getSoftcapAttr());
    gradients[3] = ofLow.getDlow();
    gradients[4] = ofLow.getDlowWeight();
  }
  return success();
}
