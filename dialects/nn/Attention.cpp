// SPDX-License-Identifier: Apache-2.0
//
// Attention and rotary positions: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Attention.h"

#include "dialects/nn/Checks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNAttentionOps.cpp.inc"

void NNDialect::registerAttention() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNAttentionOps.cpp.inc"
      >();
}

namespace {

/// Values, and with them what attention gives, may be of another width than queries and keys.
LogicalResult checkHeads(Operation *op, Value q, Value k, Value v, Value o, Value lse, int64_t heads, int64_t kvHeads) {
  if (heads <= 0 || kvHeads <= 0 || heads % kvHeads)
    return op->emitOpError() << "has " << heads << " heads, which " << kvHeads << " key and value heads do not divide";
  for (auto [value, name, count] : {std::tuple<Value, StringRef, int64_t>{q, "q", heads}, {v, "v", kvHeads}})
    if (features(value) % count)
      return op->emitOpError() << "has " << count << " heads, which do not divide the " << features(value)
                               << " features of '" << name << "'";
  return success(succeeded(checkFeatures(op, k, "k", features(q) / heads * kvHeads)) &&
                 succeeded(checkFeatures(op, o, "o", features(v) / kvHeads * heads)) &&
                 succeeded(checkFeatures(op, lse, "lse", heads)));
}

/// A state has room for `capacity` positions; 0: it is none.
LogicalResult checkCapacity(Operation *op, ValueRange values, int64_t capacity) {
  for (Value value : values)
    if (getCapacity(value.getType()) != capacity)
      return op->emitOpError() << "has a capacity of " << capacity << " beside " << value.getType();
  return success();
}

template <typename Op> LogicalResult checkSlopes(Op op) {
  std::optional<ArrayRef<float>> slopes = op.getSlopes();
  if (!slopes)
    return success();
  if (op.getSoftcap())
    return op.emitOpError("has slopes and a softcap; give one of them");
  if (slopes->size() != op.getHeads())
    return op.emitOpError() << "has " << slopes->size() << " slopes for " << op.getHeads()
                            << " heads; give one for each";
  if (!llvm::all_of(*slopes, [](float slope) { return std::isfinite(slope); }))
    return op.emitOpError("has a slope that is not finite");
  return success();
}

template <typename Op> LogicalResult checkAttentionGradient(Op op) {
  if (!op.getDkAccumulator() != !op.getDvAccumulator())
    return op.emitOpError("has one of its two accumulators; give both or none");
  if (failed(checkSoftcap(op, op.getSoftcap())))
    return failure();
  return checkHeads(op, op.getQ(), op.getK(), op.getV(), op.getO(), op.getLse(), op.getHeads(), op.getKvHeads());
}

} // namespace

LogicalResult RopeOp::verify() {
  int64_t size = getHeadDim();
  if (size <= 0 || features(getX()) % size)
    return emitOpError() << "has heads of " << size << ", which do not divide the " << features(getX())
                         << " features of 'x'";
  if (static_cast<int64_t>(getFrequencies().size()) * 2 > size)
    return emitOpError() << "has " << getFrequencies().size() << " frequencies; a head of " << size << " has room for "
                         << size / 2;
  return success();
}
LogicalResult AttentionOp::verify() {
  if (failed(checkCapacity(*this, {getK(), getV()}, getCapacity())) || failed(checkSoftcap(*this, getSoftcap())) ||
      failed(checkSlopes(*this)))
    return failure();
  return checkHeads(*this, getQ(), getK(), getV(), getOutput(), getLse(), getHeads(), getKvHeads());
}
LogicalResult BidirectionalAttentionOp::verify() {
  if (failed(checkSoftcap(*this, getSoftcap())))
    return failure();
  return checkHeads(*this, getQ(), getK(), getV(), getOutput(), getLse(), getHeads(), getKvHeads());
}
LogicalResult BidirectionalAttentionGradientOp::verify() { return checkAttentionGradient(*this); }
LogicalResult AppendOp::verify() {
  if (getCapacity() <= 0)
    return emitOpError() << "has a capacity of " << getCapacity() << "; at least 1 is needed";
  return checkCapacity(*this, {getState(), getResult()}, getCapacity());
}
LogicalResult AttentionGradientOp::verify() {
  return succeeded(checkSlopes(*this)) ? checkAttentionGradient(*this) : failure();
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
