// SPDX-License-Identifier: Apache-2.0
//
// Activations and gated units: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Activations.h"

#include "dialects/nn/Checks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNActivationOps.cpp.inc"

void NNDialect::registerActivations() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNActivationOps.cpp.inc"
      >();
}

namespace {

template <typename Op> LogicalResult checkBounds(Op op) {
  std::optional<APFloat> lower = op.getLower(), upper = op.getUpper();
  if (!lower && !upper)
    return op.emitOpError("has no bounds; give 'lower', 'upper' or both");
  for (std::optional<APFloat> bound : {lower, upper})
    if (bound && !bound->isFinite())
      return op.emitOpError() << "has a bound of " << bound->convertToFloat() << "; leave it out";
  if (lower && upper && *upper < *lower)
    return op.emitOpError() << "has bounds " << lower->convertToFloat() << " and " << upper->convertToFloat()
                            << ", which leave no number between them";
  return success();
}

LogicalResult checkXielu(Operation *op, const APFloat &epsilon) {
  if (epsilon.isFinite() && (epsilon.isNegative() || epsilon.isZero()))
    return success();
  return op->emitOpError() << "has an epsilon of " << epsilon.convertToFloat() << "; 0 or a number below is needed";
}

LogicalResult checkApproximation(Operation *op, uint64_t approximation) {
  return approximation <= 1 ? success() : op->emitOpError("has an approximation that is neither 0 (erf) nor 1 (tanh)");
}

LogicalResult checkGate(Operation *op, StringRef activation) {
  if (mebp::format::findActivation(activation))
    return success();
  return op->emitOpError() << "has activation '" << activation << "'; known are "
                           << mebp::format::listed(mebp::format::namesOf(mebp::format::activations), " and ");
}

} // namespace

LogicalResult GeluOp::verify() { return checkApproximation(*this, getApproximation()); }
LogicalResult GeluGradientOp::verify() { return checkApproximation(*this, getApproximation()); }
LogicalResult SoftcapOp::verify() { return checkSoftcap(*this, getSoftcap()); }
LogicalResult SoftcapGradientOp::verify() { return checkSoftcap(*this, getSoftcap()); }
LogicalResult ClampOp::verify() { return checkBounds(*this); }
LogicalResult ClampGradientOp::verify() { return checkBounds(*this); }
LogicalResult XieluOp::verify() { return checkXielu(*this, getEpsilon()); }
LogicalResult XieluGradientOp::verify() { return checkXielu(*this, getEpsilon()); }
LogicalResult GatedOp::verify() { return checkGate(*this, getActivation()); }
LogicalResult GatedGradientOp::verify() { return checkGate(*this, getActivation()); }

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
