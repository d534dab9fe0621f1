// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/FlattenTokens.h"
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Parameters.h"

using namespace mlir;
using namespace mebp;
using mebp::nn::features;

static AxisLayout::Pieces featuresOf(int64_t size, int64_t stride) {
  return size == 1 ? AxisLayout::Pieces() : AxisLayout::Pieces{{2, size, stride}};
}

FailureOr<Value> TokenFlattener::viewParameter(nn::OnnxOp node, Value value, ArrayRef<int64_t> shape) {
  auto read = value.getDefiningOp<nn::ReadParameterOp>();
  auto type = RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  if (type == value.getType())
    return value;
  auto module = main->getParentOfType<ModuleOp>();
  for (auto other : main.getOps<nn::ReadParameterOp>())
    if (read && other != read && other.getParameter() == read.getParameter() && other.getType() != type)
      read = {};
  auto parameter = read ? module.lookupSymbol<nn::ParameterOp>(read.getParameter()) : nn::ParameterOp();
  if (!parameter || type.getNumElements() != parameter.getTensorType().getNumElements())
    return emitUnsupported(node) << "its parameter is read in two shapes";
  read.getResult().setType(type);
  parameter.setShape(parameter.getTensorType().getShape());
  parameter.setType(type);
  return value;
}

LogicalResult TokenFlattener::flattenRoute(nn::OnnxOp node) {
  const Token *logits = find(node.getInputs()[0]);
  if (!logits || !hasWholeRows(*logits))
    return emitUnsupported(node) << "its logits are not all features of each token";
  Value bias = node.getInputs().size() > 1 ? node.getInputs()[1] : Value();
  if (bias) {
    auto vector = viewParameter(node, bias, {features(logits->flat)});
    if (failed(vector))
      return failure();
    bias = *vector;
  }
  int64_t slots = getShape(node.getOutputs()[0]).back();
  AxisLayout layout = logits->layout;
  SmallVector<AxisLayout::Pieces> axes(layout.getAxes());
  axes.back() = featuresOf(slots, 1);
  auto float32 = [&](StringRef name) { return dyn_cast_or_null<FloatAttr>(getAttribute(node, name)); };
  auto integer = [&](StringRef name) { return dyn_cast_or_null<IntegerAttr>(getAttribute(node, name)); };
  auto route = nn::RouteOp::create(builder, node.getLoc(), tokenType(slots), tokenType(slots), logits->flat, bias,
                                   cast<StringAttr>(getAttribute(node, "score")),
                                   dyn_cast_or_null<UnitAttr>(getAttribute(node, "normalized")), float32("epsilon"),
                                   float32("scale"), integer("groups"), integer("top_groups"), integer("best_of_group"),
                                   float32("threshold"));
  for (auto [output, flat] : llvm::zip(node.getOutputs(), route.getResults()))
    tokens[output] = {flat, AxisLayout(axes)};
  return success();
}

/// x [tokens, slots or 1, in, 1], weight [experts, out, in], ids [tokens, slots], bias [experts, out] ->
/// [tokens, slots, out, 1].
LogicalResult TokenFlattener::flattenExpertLinear(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]), *ids = find(node.getInputs()[2]);
  ArrayRef<int64_t> shape = getShape(node.getOutputs()[0]);
  int64_t slots = shape[1], outputs = shape[2], inputs = getShape(node.getInputs()[0])[2];
  if (!x || !ids || !hasWholeRows(*ids) || features(ids->flat) != slots || !ids->flat.getDefiningOp<nn::RouteOp>())
    return emitUnsupported(node) << "its experts are not chosen by a router that is known";
  ArrayRef<AxisLayout::Pieces> axes = x->layout.getAxes();
  bool isShared = axes[1].empty(), isEach = axes[1] == featuresOf(slots, inputs);
  if (!areBatchAndSequence(axes.take_front(1)) || !(isShared || isEach) || axes[2] != featuresOf(inputs, 1) ||
      features(x->flat) != (isShared ? inputs : slots * inputs))
    return emitUnsupported(node) << "its input is not all features of each token, or of each slot";
  int64_t rows = cast<RankedTensorType>(node.getInputs()[1].getType()).getNumElements() / inputs;
  auto weight = viewParameter(node, node.getInputs()[1], {rows, inputs});
  if (failed(weight))
    return failure();
  // Its file may have it expert by expert.
  auto read = weight->getDefiningOp<nn::ReadParameterOp>();
  if (auto parameter = main->getParentOfType<ModuleOp>().lookupSymbol<nn::ParameterOp>(read.getParameter())) {
    SmallVector<int64_t> shape = {rows / outputs, outputs, inputs};
    if (parameter.getTransposed())
      std::swap(shape[1], shape[2]);
    parameter.setShape(shape);
  }
  Value bias;
  if (node.getInputs().size() > 3) {
    auto vector = viewParameter(node, node.getInputs()[3], {rows});
    if (failed(vector))
      return failure();
    bias = *vector;
  }
  AxisLayout layout({axes[0], featuresOf(slots, outputs), featuresOf(outputs, 1), {}});
  Value flat = nn::ExpertLinearOp::create(builder, node.getLoc(), tokenType(slots * outputs), x->flat, *weight,
                                          ids->flat, Value(), bias, builder.getF32FloatAttr(1.0f));
  define(node, flat, layout);
  return success();
}

/// weights [tokens, slots], scales [experts], ids [tokens, slots]: a linear layer of one number for each expert.
LogicalResult TokenFlattener::flattenExpertScale(nn::OnnxOp node) {
  const Token *weights = find(node.getInputs()[0]), *ids = find(node.getInputs()[2]);
  if (!weights || !ids || !hasWholeRows(*weights) || !hasWholeRows(*ids) || !ids->flat.getDefiningOp<nn::RouteOp>())
    return emitUnsupported(node) << "its experts are not chosen by a router that is known";
  const Token scaled = *weights;
  const Value chosen = ids->flat;
  auto matrix = viewParameter(node, node.getInputs()[1], {getShape(node.getInputs()[1]).front(), 1});
  if (failed(matrix))
    return failure();
  Value flat = nn::ExpertLinearOp::create(builder, node.getLoc(), scaled.flat.getType(), scaled.flat, *matrix, chosen,
                                          Value(), Value(), builder.getF32FloatAttr(1.0f));
  define(node, flat, scaled.layout);
  return success();
}

/// y [tokens, slots, width], or [.., width] of one slot, and weights [.., slots].
LogicalResult TokenFlattener::flattenExpertSum(nn::OnnxOp node) {
  const Token *y = find(node.getInputs()[0]), *weights = find(node.getInputs()[1]);
  if (!y || !weights || !hasWholeRows(*weights))
    return emitUnsupported(node) << "its operands are not activations of each token";
  int64_t slots = features(weights->flat), width = features(y->flat) / slots;
  SmallVector<AxisLayout::Pieces> axes(y->layout.getAxes());
  size_t rank = axes.size();
  bool hasSlots = rank > getShape(node.getOutputs()[0]).size();
  if (rank < 2 || axes.back() != featuresOf(width, 1) || (hasSlots && axes[rank - 2] != featuresOf(slots, width)) ||
      (!hasSlots && slots != 1) || !areBatchAndSequence(ArrayRef(axes).drop_back(hasSlots ? 2 : 1)))
    return emitUnsupported(node) << "it does not sum what the experts give of each token";
  if (hasSlots)
    axes.erase(axes.end() - 2);
  Value flat = nn::ExpertSumOp::create(builder, node.getLoc(), tokenType(width), y->flat, weights->flat);
  define(node, flat, AxisLayout(axes));
  return success();
}
