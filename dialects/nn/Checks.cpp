// SPDX-License-Identifier: Apache-2.0
#include "dialects/nn/Checks.h"

using namespace mlir;
using namespace mebp::nn;

LogicalResult mebp::nn::checkFeatures(Operation *op, Value value, StringRef name, int64_t expected) {
  int64_t size = features(value);
  if (ShapedType::isDynamic(size) || ShapedType::isDynamic(expected) || size == expected)
    return success();
  return op->emitOpError() << "'" << name << "' has size " << size << " where " << expected
                           << " is needed: " << value.getType();
}

LogicalResult mebp::nn::checkLow(Operation *op, Value low, Value weight) {
  if (!low == !weight)
    return success();
  return op->emitOpError() << "has one of 'low' and 'low_weight'; give both or none";
}

LogicalResult mebp::nn::checkLike(Operation *op, Value value, StringRef name, Value other) {
  if (value.getType() == other.getType())
    return success();
  return op->emitOpError() << "'" << name << "' is " << value.getType() << " where " << other.getType() << " is needed";
}

LogicalResult mebp::nn::checkSoftcap(Operation *op, std::optional<APFloat> softcap) {
  if (!softcap || (softcap->isFiniteNonZero() && !softcap->isNegative()))
    return success();
  return op->emitOpError() << "has a softcap of " << softcap->convertToFloat() << "; a number above 0 is needed";
}
