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
  return view.getInputs()[0].getDefiningOp<nn::ReadParameterOp>() &&
         llvm::all_of(view->getUses(), [](OpOperand &use) {
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
  auto convolution = nn::CausalConvOp::create(builder, node.getLoc(), flat.getType(), state, flat, *matrix, bias,
                                              Value(), Value(), 0);
  define(node, convolution.getOutput(), layout);
  return success();
}
