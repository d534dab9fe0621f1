// SPDX-License-Identifier: Apache-2.0
//
// The head's log-probabilities: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Head.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Checks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNHeadOps.cpp.inc"

void NNDialect::registerHead() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNHeadOps.cpp.inc"
      >();
}

namespace {

/// What reads the head's weight, and beside it perhaps the one of a product of low rank.
template <typename Op> LogicalResult checkHead(Op op) {
  if (failed(checkFeatures(op, op.getX(), "x", features(op.getWeight()))) ||
      failed(checkLow(op, op.getLow(), op.getLowWeight())) || failed(checkSoftcap(op, op.getSoftcap())))
    return failure();
  int64_t rows = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(0);
  if (op.getBias() && failed(checkFeatures(op, op.getBias(), "bias", rows)))
    return failure();
  if (!op.getLow())
    return success();
  int64_t lowRows = cast<RankedTensorType>(op.getLowWeight().getType()).getDimSize(0);
  if (rows != lowRows)
    return op.emitOpError() << "'low_weight' has " << lowRows << " rows where " << rows << " are needed";
  return checkFeatures(op, op.getLowWeight(), "low_weight", features(op.getLow()));
}

} // namespace

LogicalResult LogProbabilityOp::verify() {
  return success(succeeded(checkHead(*this)) &&
                 succeeded(checkFeatures(*this, getLogProbabilities(), "log_probabilities", 1)) &&
                 succeeded(checkFeatures(*this, getEntropy(), "entropy", 1)));
}
LogicalResult LogProbabilityGradientOp::verify() {
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkFeatures(*this, getDx(), "dx", features(getX()))));
}
LogicalResult LogProbabilityWeightGradientOp::verify() {
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkLike(*this, getDweight(), "dweight", getWeight())));
}
LogicalResult LogProbabilityBiasGradientOp::verify() {
  if (!getBias())
    return emitOpError("has no 'bias', whose gradient it gives");
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkLike(*this, getDbias(), "dbias", getBias())));
}
LogicalResult LogProbabilityLowGradientOp::verify() {
  if (!getLow())
    return emitOpError("has no 'low', whose gradient it gives");
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkFeatures(*this, getDlow(), "dlow", features(getLow()))) &&
                 (!getDlowWeight() || succeeded(checkLike(*this, getDlowWeight(), "dlow_weight", getLowWeight()))));
}
LogicalResult LogProbabilityLogitsGradientOp::verify() {
  if (!getWeighted() != !getEntropyCoefficients())
    return emitOpError("needs 'weighted' and 'entropy_coefficients' together, or none of them");
  return success();
}
LogicalResult LogProbabilityTileOp::verify() {
  if (!getAccumulator() != !getNewAccumulator())
    return emitOpError("has an accumulator as operand or as result only; give both or none");
  return success();
}
LogicalResult LogProbabilityFromTilesOp::verify() {
  bool gradient = static_cast<bool>(getDx());
  if (gradient != static_cast<bool>(getCoefficients()) || gradient != static_cast<bool>(getAccumulator()) ||
      gradient != static_cast<bool>(getWeight()))
    return emitOpError("needs 'coefficients', 'accumulator', 'weight' and the result 'dx' together, or none of them");
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
    auto ofLow = LogProbabilityLowGradientOp::create(
        builder, getLoc(), low.getType(), wanted.test(4) ? lowWeight.getType() : Type(), x, weight, getLabels(),
        coefficients, cotangents[1], low, lowWeight, bias, getLowAlphaAttr(), getSoftcapAttr());
    gradients[3] = ofLow.getDlow();
    gradients[4] = ofLow.getDlowWeight();
  }
  return success();
}
