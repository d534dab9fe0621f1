// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: what their ops check beyond shapes, and their gradient rules.
#include "dialects/nn/Embeddings.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;
using llvm::SmallBitVector;

#define GET_OP_CLASSES
#include "dialects/nn/NNEmbeddingOps.cpp.inc"

void NNDialect::registerEmbeddings() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNEmbeddingOps.cpp.inc"
      >();
}

LogicalResult EmbeddingOp::verify() {
  const int64_t columns = features(getWeight()), width = features(getResult());
  if (getPart() ? width > 0 && columns % width == 0 : columns == width)
    return success();
  return emitOpError() << "gives " << width << " features of a table that has " << columns;
}
LogicalResult PositionEmbeddingOp::verify() {
  int64_t positions = cast<RankedTensorType>(getWeight().getType()).getDimSize(0);
  int64_t first = getOffset().value_or(0);
  if (first >= 0 && (ShapedType::isDynamic(positions) || first < positions))
    return success();
  return emitOpError() << "begins with row " << first << " of a table of " << positions;
}
LogicalResult RepeatRowOp::verify() {
  int64_t rows = cast<RankedTensorType>(getWeight().getType()).getDimSize(0), row = getOffset();
  if (row >= 0 && (ShapedType::isDynamic(rows) || row < rows))
    return success();
  return emitOpError() << "takes row " << row << " of a table of " << rows;
}

// Uses the ids.
LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, const SmallBitVector &wanted,
                                         MutableArrayRef<Value> gradients) {
  if (getPart() && wanted.test(1))
    return emitError("'nn.embedding' has no gradient rule for a table of which it takes parts");
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
