// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Experts.h"

#include "dialects/nn/Embeddings.h"

#include "format/scores.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNExpertOps.cpp.inc"

void NNDialect::registerExperts() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNExpertOps.cpp.inc"
      >();
}

//===- Verifiers -------------------------------------------------------------------------------------------------===//

namespace {

int64_t rowsOf(Value weight) { return cast<RankedTensorType>(weight.getType()).getDimSize(0); }

LogicalResult checkScore(Operation *op, StringRef score, std::optional<APFloat> threshold) {
  if (threshold && threshold->isNegative() && !threshold->isZero())
    return op->emitOpError() << "has a threshold of " << threshold->convertToFloat()
                             << "; a number from 0 on is needed";
  if (mebp::format::findScore(std::string_view(score)))
    return success();
  return op->emitOpError() << "has score '" << score << "'; known are "
                           << mebp::format::listed(mebp::format::namesOf(mebp::format::scores), " and ");
}

/// `slots`: what all slots have side by side.
LogicalResult checkSlots(Operation *op, Value slots, StringRef name, int64_t count) {
  if (count > 0 && features(slots) % count == 0)
    return success();
  return op->emitOpError() << "has " << count << " slots, which do not divide the " << features(slots)
                           << " features of '" << name << "'";
}

/// Of a weight [experts · outputs, inputs], y has outputs and x inputs for each slot, or x has them once. A weight
/// [outputs, inputs · experts] has each expert in columns, and x inputs for each slot.
LogicalResult checkExperts(Operation *op, Value y, StringRef nameOfY, Value x, StringRef nameOfX, Value ids,
                           Value weight, bool mayShare, bool maySplit) {
  int64_t slots = features(ids), inputs = features(weight);
  if (failed(checkSlots(op, y, nameOfY, slots)))
    return failure();
  int64_t outputs = features(y) / slots;
  if (outputs == 0 || rowsOf(weight) % outputs)
    return op->emitOpError() << "has " << outputs << " features of '" << nameOfY << "' for each slot, which do not "
                             << "divide the " << rowsOf(weight) << " rows of its weight";
  if (rowsOf(weight) == outputs && maySplit) {
    if (features(x) % slots == 0 && inputs % (features(x) / slots) == 0)
      return success();
    return op->emitOpError() << "'" << nameOfX << "' has " << features(x) << " features for " << slots
                             << " slots, which do not divide the " << inputs << " columns of the weight";
  }
  if ((mayShare && features(x) == inputs) || (maySplit && features(x) == slots * inputs))
    return success();
  return op->emitOpError() << "'" << nameOfX << "' has " << features(x) << " features, which are not the " << inputs
                           << " of the weight" << (mayShare ? "" : " for each slot");
}

} // namespace

LogicalResult RouteOp::verify() {
  if (failed(checkScore(*this, getScore(), getThreshold())))
    return failure();
  int64_t experts = features(getLogits()), chosen = features(getIds());
  if (chosen > experts)
    return emitOpError() << "chooses " << chosen << " experts of " << experts;
  int64_t groups = getGroups().value_or(1), kept = getTopGroups().value_or(groups), best = getBestOfGroup().value_or(1);
  if (groups <= 0 || experts % groups || kept <= 0 || kept > groups || best <= 0 || best > experts / groups)
    return emitOpError() << "has " << groups << " groups of " << experts << " experts, " << kept
                         << " of them chosen by their best " << best << ", which cannot be";
  if (chosen > experts / groups * kept)
    return emitOpError() << "chooses " << chosen << " experts of " << kept << " groups, which have "
                         << experts / groups * kept;
  return success();
}
LogicalResult RouteGradientOp::verify() { return checkScore(*this, getScore(), getThreshold()); }
LogicalResult ExpertLinearOp::verify() {
  if (failed(checkExperts(*this, getResult(), "y", getX(), "x", getIds(), getWeight(), true, true)))
    return failure();
  int64_t outputs = features(getResult()) / features(getIds());
  int64_t needed = rowsOf(getWeight()) == outputs
                       ? features(getWeight()) / (features(getX()) / features(getIds())) * outputs
                       : rowsOf(getWeight());
  if (!getBias() || features(getBias()) == needed)
    return success();
  return emitOpError() << "has a bias of " << features(getBias()) << " elements where its experts give " << needed;
}
LogicalResult ExpertLinearInputGradientOp::verify() {
  return checkExperts(*this, getDy(), "dy", getResult(), "dx", getIds(), getWeight(), false, true);
}
LogicalResult ExpertLinearSharedGradientOp::verify() {
  return checkExperts(*this, getDy(), "dy", getResult(), "dx", getIds(), getWeight(), true, false);
}
LogicalResult ExpertLinearWeightGradientOp::verify() {
  return checkExperts(*this, getDy(), "dy", getX(), "x", getIds(), getResult(), true, true);
}
LogicalResult ExpertSumOp::verify() {
  if (features(getY()) != features(getResult()) * features(getWeights()))
    return emitOpError() << "sums " << features(getWeights()) << " slots of " << features(getResult())
                         << " features, but 'y' has " << features(getY());
  return success();
}
LogicalResult ExpertSumGradientOp::verify() {
  if (features(getY()) != features(getCotangent()) * features(getWeights()))
    return emitOpError() << "sums " << features(getWeights()) << " slots of " << features(getCotangent())
                         << " features, but 'y' has " << features(getY());
  return success();
}

bool ExpertLinearOp::sharesInput() {
  bool inColumns = rowsOf(getWeight()) * features(getIds()) == features(getResult());
  return features(getX()) == features(getWeight()) && !inColumns;
}

bool ExpertLinearOp::isPart() { return getIds().getDefiningOp<RepeatRowOp>() != nullptr; }

//===- Gradients -------------------------------------------------------------------------------------------------===//

// Uses the logits and the ids; what is chosen has no gradient.
LogicalResult RouteOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                     MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitError("'nn.route' has no gradient rule for 'ids'");
  if (getBias() && wanted.test(1))
    return emitError("'nn.route' has no gradient rule for its bias, which chooses and counts for nothing else");
  if (wanted.test(0))
    gradients[0] = RouteGradientOp::create(builder, getLoc(), getLogits().getType(), getLogits(), getIds(),
                                           cotangents[0], getScoreAttr(), getNormalizedAttr(), getEpsilonAttr(),
                                           getScaleAttr(), getThresholdAttr());
  return success();
}

// Uses the logits and which rows count.
LogicalResult ExpertLoadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                          MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitError("'nn.expert_load' has no gradient rule for 'counts'");
  if (wanted.test(0))
    gradients[0] = ExpertLoadGradientOp::create(builder, getLoc(), getLogits().getType(), getLogits(), getCounted(),
                                                cotangents[0]);
  return success();
}

// Uses the weight and the ids for dx, x and the ids for dw.
LogicalResult ExpertLinearOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents,
                                            const SmallBitVector &wanted, MutableArrayRef<Value> gradients) {
  Value dy = cotangents[0];
  if (wanted.test(0) && sharesInput())
    gradients[0] = ExpertLinearSharedGradientOp::create(builder, getLoc(), getX().getType(), dy, getWeight(), getIds(),
                                                        Value(), getAlphaAttr());
  else if (wanted.test(0))
    gradients[0] = ExpertLinearInputGradientOp::create(builder, getLoc(), getX().getType(), dy, getWeight(), getIds(),
                                                       Value(), getAlphaAttr());
  if (wanted.test(1))
    gradients[1] = ExpertLinearWeightGradientOp::create(builder, getLoc(), getWeight().getType(), dy, getX(), getIds(),
                                                        Value(), getAlphaAttr());
  if (getAddend() && wanted.test(3))
    gradients[3] = dy;
  if (getBias() && wanted.test(getAddend() ? 4 : 3))
    return emitError("'nn.expert_linear' has no gradient rule for its bias; leave it frozen");
  return success();
}

// Uses y and the weights.
LogicalResult ExpertSumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                         MutableArrayRef<Value> gradients) {
  auto gradient = ExpertSumGradientOp::create(builder, getLoc(), getY().getType(), getWeights().getType(), getY(),
                                              getWeights(), cotangents[0]);
  for (unsigned i = 0; i < 2; ++i)
    if (wanted.test(i))
      gradients[i] = gradient.getResult(i);
  return success();
}
