// SPDX-License-Identifier: Apache-2.0
//
// Recurrences: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Recurrences.h"

#include "dialects/nn/Checks.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Linear.h"

#include "format/kernels.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp;
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

/// Whether kernels have room for so much of what an op has.
static LogicalResult checkRoom(Operation *op, int64_t count, StringRef what) {
  const format::KernelSignature &signature =
      *format::findSignature(op->getName().stripDialect().str()); // which have the names of ops
  const int64_t most = format::workspaceBytes / signature.roomBytes;
  if (count > most)
    return op->emitOpError() << "has a " << what << " of " << count << "; kernels have room for " << most;
  return success();
}

/// Of a convolution: what it carries are all rows but one that it reads.
static LogicalResult checkConvolution(Operation *op, Value weight, Value next) {
  const int64_t width = getWidth(weight);
  if (width < 2)
    return op->emitOpError() << "has a width of " << width << "; at least 2 is needed";
  const int64_t rows = cast<RankedTensorType>(next.getType()).getShape().drop_back().back();
  if (rows != width - 1)
    return op->emitOpError() << "carries " << rows << " rows beside a width of " << width;
  return checkRoom(op, width, "width");
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

/// Rates are one for each feature, or for each group of them.
static LogicalResult checkRates(Operation *op, Value x, Value rate) {
  if (rate && features(x) % features(rate))
    return op->emitOpError() << "has " << features(rate) << " rates, which do not divide the " << features(x)
                             << " features of 'x'";
  return success();
}

LogicalResult SoftplusOp::verify() { return checkRates(*this, getX(), getRate()); }
LogicalResult SoftplusGradientOp::verify() { return checkRates(*this, getX(), getRate()); }

// Uses x, and the result where rates are trained.
LogicalResult SoftplusOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                        MutableArrayRef<Value> gradients) {
  const unsigned bias = 1, rate = getBias() ? 2 : 1;
  Value dx =
      SoftplusGradientOp::create(builder, getLoc(), getX().getType(), getX(), cotangents[0], getBias(), getRate());
  if (wanted.test(0))
    gradients[0] = dx;
  if (getBias() && wanted.test(bias))
    gradients[bias] = BiasGradientOp::create(builder, getLoc(), getBias().getType(), dx, Value());
  if (getRate() && wanted.test(rate)) {
    if (features(getRate()) != features(getX()))
      return emitError("'nn.softplus' has no gradient rule for rates of several features; leave them frozen");
    Value each = MultiplyOp::create(builder, getLoc(), getType(), cotangents[0], getResult());
    gradients[rate] = BiasGradientOp::create(builder, getLoc(), getRate().getType(), each, Value());
  }
  return success();
}

/// Of q, k, v and the state [.., heads * K * P].
static LogicalResult checkDelta(Operation *op, Value q, Value v, Value g, Value next, int64_t heads, int64_t keyHeads) {
  if (heads <= 0 || keyHeads <= 0 || heads % keyHeads || features(q) % keyHeads || features(v) % heads)
    return op->emitOpError() << "has " << heads << " heads and " << keyHeads << " key heads, which do not divide "
                             << "features or each other";
  if (failed(checkFeatures(op, g, "g", heads)))
    return failure();
  const int64_t keys = features(q) / keyHeads;
  if (keys > format::widestKey)
    return op->emitOpError() << "has keys of " << keys << "; kernels have room for " << format::widestKey;
  if (failed(checkRoom(op, keys * features(v) / heads, "state")))
    return failure();
  return checkFeatures(op, next, "next", keys * features(v));
}

LogicalResult GatedDeltaOp::verify() {
  return checkDelta(*this, getQ(), getV(), getG(), getNext(), getHeads(), getKvHeads());
}
LogicalResult GatedDeltaGradientOp::verify() {
  return checkDelta(*this, getQ(), getV(), getG(), getNext(), getHeads(), getKvHeads());
}

// Uses all inputs, and the marks.
LogicalResult GatedDeltaOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                          MutableArrayRef<Value> gradients) {
  if (cotangents[1] || cotangents[2])
    return emitError("'nn.gated_delta' has no gradient rule for 'next' and 'marks'");
  auto gradient = GatedDeltaGradientOp::create(builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
                                               getG().getType(), getBeta().getType(), getNext().getType(), getQ(),
                                               getK(), getV(), getG(), getBeta(), getMarks(), cotangents[0], Value(),
                                               getStarts(), getHeadsAttr(), getKvHeadsAttr(), getScaleAttr());
  for (unsigned i = 0; i < 5; ++i)
    if (wanted.test(i))
      gradients[i] = gradient.getResult(i);
  return success();
}
