// SPDX-License-Identifier: Apache-2.0
//
// Recurrences, which our exporter writes as one node each.
#include "compiler/import/FlattenTokens.h"
#include "compiler/import/OnnxMatchers.h"
#include "compiler/import/Passes.h"
#include "dialects/nn/Parameters.h"
#include "dialects/nn/Recurrences.h"

using namespace mlir;
using namespace mebp;
using mebp::nn::features;

bool TokenFlattener::isConvolutionWeight(nn::OnnxOp view) {
  return view.getInputs()[0].getDefiningOp<nn::ReadParameterOp>() && llvm::all_of(view->getUses(), [](OpOperand &use) {
           auto user = dyn_cast<nn::OnnxOp>(use.getOwner());
           return user && user.getOpType() == "CausalConv" && use.getOperandNumber() == 1;
         });
}

/// x [batch, sequence, channels], the weight [channels, width] or [channels, 1, width], a bias [channels].
LogicalResult TokenFlattener::flattenCausalConv(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  if (!x || !hasWholeRows(*x))
    return emitUnsupported(node) << "its input is not all features of each token";
  const int64_t channels = features(x->flat);
  Value weight = node.getInputs()[1], bias = node.getInputs().size() > 2 ? node.getInputs()[2] : Value();
  if (nn::OnnxOp view = getNode(weight, "Reshape"); view && isConvolutionWeight(view))
    weight = view.getInputs()[0];
  ArrayRef<int64_t> shape = getShape(weight);
  const bool fits = shape.size() == 2 || (shape.size() == 3 && shape[1] == 1);
  if (!fits || shape.front() != channels || shape.back() < 2)
    return emitUnsupported(node) << "its weight is not [channels, width] with a width of 2 at least";
  if (bias && !isParameterVector(bias, channels))
    return emitUnsupported(node) << "its bias is not a vector of parameters";
  const Value flat = x->flat;
  const AxisLayout layout = x->layout;
  FailureOr<Value> matrix = viewParameter(node, weight, {channels, shape.back()});
  if (failed(matrix))
    return failure();
  auto state = RankedTensorType::get({shape.back() - 1, channels}, builder.getF32Type());
  auto convolution =
      nn::CausalConvOp::create(builder, node.getLoc(), flat.getType(), state, flat, *matrix, bias, Value(), Value(), 0);
  define(node, convolution.getOutput(), layout);
  return success();
}

/// x [batch, sequence, features] -> the logarithm of a decay, with a bias for each feature or none, and a rate.
LogicalResult TokenFlattener::flattenDecay(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  if (!x || !hasWholeRows(*x))
    return emitUnsupported(node) << "its input is not all features of each token";
  const AxisLayout layout = x->layout;
  const bool hasBias = node.getInputs().size() > 2;
  Value decay = nn::SoftplusOp::create(builder, node.getLoc(), x->flat.getType(), x->flat,
                                       hasBias ? node.getInputs()[1] : Value(), node.getInputs().back());
  define(node, decay, layout);
  return success();
}

/// q, k [batch, sequence, heads, K], v [batch, sequence, heads, P], g and beta [batch, sequence, heads]. Key heads may
/// have been repeated for the heads that share them.
LogicalResult TokenFlattener::flattenGatedDelta(nn::OnnxOp node) {
  const Token *operands[5];
  int64_t heads[5];
  for (int i = 0; i < 5; ++i) {
    const Token *x = operands[i] = find(node.getInputs()[i]);
    const size_t rank = i < 3 ? 4 : 3;
    bool fits = x && x->layout.getRank() == rank && isBatch(x->layout[0]) && isSequence(x->layout[1]);
    const int64_t run = !fits ? 0 : i < 3 ? getRun(*x) : 1;
    heads[i] = run ? features(x->flat) / run : 0;
    if (i < 3) {
      ArrayRef<AxisPiece> distinct = run ? x->layout[2] : ArrayRef<AxisPiece>();
      while (i < 2 && !distinct.empty() && distinct.back().axis == AxisLayout::kRepeated)
        distinct = distinct.drop_back();
      fits &= run && areHeads(distinct, heads[i], run);
    } else {
      fits &= run && getRun(*x) == heads[i];
    }
    if (!fits)
      return emitUnsupported(node) << "its operand " << i << " is not [batch, sequence, heads"
                                   << (i < 3 ? ", width]" : "]");
  }
  if (heads[0] != heads[1] || heads[2] % heads[0] || heads[3] != heads[2] || heads[4] != heads[2] ||
      features(operands[0]->flat) != features(operands[1]->flat))
    return emitUnsupported(node) << "its heads do not fit each other";
  const int64_t columns = features(operands[0]->flat) / heads[0] * features(operands[2]->flat);
  auto state = RankedTensorType::get({1, columns}, builder.getF32Type());
  auto marks = RankedTensorType::get({ShapedType::kDynamic, columns}, builder.getF32Type());
  const Token v = *operands[2];
  auto delta = nn::GatedDeltaOp::create(builder, node.getLoc(), v.flat.getType(), state, marks, operands[0]->flat,
                                        operands[1]->flat, v.flat, operands[3]->flat, operands[4]->flat, Value(),
                                        Value(), heads[2], heads[0], toFloat(getFloat(node, "scale")), 0);
  define(node, delta.getOutput(), v.layout);
  return success();
}
