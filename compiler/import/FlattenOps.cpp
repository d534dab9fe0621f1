// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/FlattenTokens.h"
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/Activations.h"
#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Attention.h"
#include "dialects/nn/Embeddings.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Norms.h"
#include "dialects/nn/Parameters.h"

using namespace mlir;
using namespace mebp;
using mebp::nn::features;

LogicalResult TokenFlattener::flattenView(nn::OnnxOp node) {
  if (isConvolutionWeight(node))
    return success();
  auto x = tokens.find(node.getInputs()[0]);
  if (x == tokens.end())
    return emitUnsupported(node) << "its input is not an activation";
  std::optional<AxisLayout> layout;
  if (node.getOpType() == "Transpose")
    layout = x->second.layout.transposed(cast<DenseI64ArrayAttr>(getAttribute(node, "perm")).asArrayRef());
  else if (node.getOpType() == "Expand")
    layout = x->second.layout.expanded(getShape(node.getOutputs()[0]));
  else
    layout = x->second.layout.reshaped(getShape(node.getOutputs()[0]));
  if (!layout)
    return emitUnsupported(node) << "it takes batch, sequence and features apart in another way than into heads";
  ++views;
  define(node, x->second.flat, *layout);
  return success();
}

/// Slices of one value along one axis become one split, with parts for what nobody reads. Where the axis lies within
/// another, as a head's queries, keys and values do, all that is around it are groups that are split alike. Of slices
/// that take every n-th element, n neighbours are a group.
LogicalResult TokenFlattener::flattenSlice(nn::OnnxOp node) {
  if (find(node.getOutputs()[0]))
    return success();
  Value input = node.getInputs()[0];
  const Token *found = find(input);
  if (!found)
    return emitUnsupported(node) << "its input is not an activation";
  Token x = *found;
  int64_t axis = getInteger(node, "axis"), width = features(x.flat), step = getInteger(node, "step", 1);
  ArrayRef<AxisPiece> pieces = x.layout[axis];
  if (pieces.size() != 1 || pieces[0].axis != 2)
    return emitUnsupported(node) << "it takes a part of the batch or of the sequence; only features can be split";
  int64_t stride = pieces[0].stride, all = pieces[0].size, extent = step == 1 ? all : step;
  int64_t group = extent * stride, groups = width / group;

  SmallVector<nn::OnnxOp> slices;
  for (Operation *user : input.getUsers())
    if (auto slice = dyn_cast<nn::OnnxOp>(user); slice && slice.getOpType() == "Slice" &&
                                                 getInteger(slice, "axis") == axis &&
                                                 getInteger(slice, "step", 1) == step)
      slices.push_back(slice);
  llvm::sort(slices, [](nn::OnnxOp a, nn::OnnxOp b) { return getInteger(a, "start") < getInteger(b, "start"); });
  auto lengthOf = [&](nn::OnnxOp slice) { return getShape(slice.getOutputs()[0])[axis]; };
  auto sizeOf = [&](nn::OnnxOp slice) { return step == 1 ? lengthOf(slice) : 1; }; // of each group
  for (nn::OnnxOp slice : slices)
    if (step > 1 && (all % step || getInteger(slice, "start") >= step || lengthOf(slice) != all / step))
      return emitUnsupported(slice) << "it takes elements of a part of an activation that lie " << step << " apart";

  SmallVector<Type> types;
  SmallVector<std::pair<nn::OnnxOp, size_t>> parts;
  int64_t end = 0, lastStart = -1;
  auto addPart = [&](int64_t size) { types.push_back(tokenType(groups * size * stride)); };
  for (nn::OnnxOp slice : slices) {
    int64_t start = getInteger(slice, "start"), size = sizeOf(slice);
    bool isSame = start == lastStart && start + size == end;
    if (start < end && !isSame)
      return emitUnsupported(slice) << "its part of the features overlaps that of another";
    if (start > end)
      addPart(start - end);
    if (!isSame)
      addPart(size);
    parts.push_back({slice, types.size() - 1});
    lastStart = start;
    end = start + size;
  }
  if (end < extent)
    addPart(extent - end);

  auto split = nn::SplitOp::create(builder, node.getLoc(), types, x.flat,
                                   groups > 1 ? builder.getI64IntegerAttr(groups) : IntegerAttr());
  for (auto [slice, part] : parts) {
    SmallVector<AxisLayout::Pieces> axes(x.layout.getAxes());
    axes[axis] = {{2, lengthOf(slice), stride}};
    // The groups of a part are closer together.
    for (auto [index, around] : llvm::enumerate(axes))
      for (AxisPiece &piece : around)
        if (static_cast<int64_t>(index) != axis && piece.axis == 2 && piece.stride >= group)
          piece.stride = piece.stride / group * sizeOf(slice) * stride;
    define(slice, split.getResults()[part], AxisLayout(axes));
  }
  return success();
}

/// Heads side by side: all features of each input, which are its heads one after the other.
LogicalResult TokenFlattener::flattenHeads(nn::OnnxOp node, int64_t axis) {
  ArrayRef<int64_t> shape = getShape(node.getOutputs()[0]);
  const int64_t width = shape.back();
  SmallVector<Value> parts;
  std::optional<AxisLayout> joined;
  for (Value input : node.getInputs()) {
    const Token *x = find(input);
    const int64_t heads = getShape(input)[axis];
    if (!x || getRun(*x) != width || features(x->flat) != heads * width || !areHeads(x->layout[axis], heads, width))
      return emitUnsupported(node) << "only features can be joined";
    SmallVector<AxisLayout::Pieces> axes(x->layout.getAxes());
    axes[axis] = {{2, shape[axis], width}};
    if (joined && *joined != AxisLayout(axes))
      return emitUnsupported(node) << "its inputs do not lie alike";
    joined = AxisLayout(axes);
    parts.push_back(x->flat);
  }
  auto flat = nn::ConcatOp::create(builder, node.getLoc(), tokenType(shape[axis] * width), parts, IntegerAttr());
  define(node, flat, *joined);
  return success();
}

/// Features of each head side by side. What all heads have in common comes as an axis that is repeated.
LogicalResult TokenFlattener::flattenConcat(nn::OnnxOp node) {
  ArrayRef<int64_t> shape = getShape(node.getOutputs()[0]);
  const size_t last = shape.size() - 1;
  if (const int64_t axis = getInteger(node, "axis"); axis != static_cast<int64_t>(last))
    return flattenHeads(node, axis);
  SmallVector<Value> parts;
  int64_t heads = 1;
  std::optional<AxisLayout> joined; // with heads that lie as far apart as they are wide
  for (Value input : node.getInputs()) {
    const Token *x = find(input);
    const int64_t width = getShape(input).back();
    if (!x || getRun(*x) != width)
      return emitUnsupported(node) << "its inputs are not features of each head";
    SmallVector<AxisLayout::Pieces> axes(x->layout.getAxes());
    int64_t own = 1, repeats = 1;
    for (AxisLayout::Pieces &axis : MutableArrayRef(axes).drop_back())
      for (AxisPiece &piece : axis) {
        if (piece.axis == AxisLayout::kRepeated)
          repeats *= piece.size;
        else if (piece.axis == 2)
          own *= piece.size;
        else
          continue;
        if (axis.size() > 1 || (piece.axis == 2 && piece.stride != width))
          return emitUnsupported(node) << "its inputs are not features of each head";
        piece = {2, piece.size, shape.back()};
      }
    axes.back() = {{2, shape.back(), 1}};
    Value part = x->flat;
    if (repeats > 1)
      part = nn::RepeatOp::create(builder, node.getLoc(), tokenType(repeats * width), part);
    heads = own * repeats;
    if ((own > 1 && repeats > 1) || features(part) != heads * width || (joined && *joined != AxisLayout(axes)))
      return emitUnsupported(node) << "its inputs are not features of the same heads";
    joined = AxisLayout(axes);
    parts.push_back(part);
  }
  auto flat = nn::ConcatOp::create(builder, node.getLoc(), tokenType(heads * shape.back()), parts,
                                   heads > 1 ? builder.getI64IntegerAttr(heads) : IntegerAttr());
  define(node, flat, *joined);
  return success();
}

LogicalResult TokenFlattener::flattenGather(nn::OnnxOp node) {
  Value table = node.getInputs()[0], indices = node.getInputs()[1];
  if (!table.getDefiningOp<nn::ReadParameterOp>() || getShape(table).size() != 2 || getInteger(node, "axis") != 0)
    return emitUnsupported(node) << "only rows of a parameter can be looked up, by token id or by position";
  int64_t width = getShape(table)[1];
  auto ids = tokens.find(indices);
  if (ids != tokens.end() && areBatchAndSequence(ids->second.layout.getAxes())) {
    SmallVector<AxisLayout::Pieces> axes(ids->second.layout.getAxes());
    axes.push_back({{2, width, 1}});
    define(node, nn::EmbeddingOp::create(builder, node.getLoc(), tokenType(width), ids->second.flat, table, Value()),
           AxisLayout(axes));
    return success();
  }
  if (auto constant = indices.getDefiningOp<nn::ConstantOp>())
    return flattenRepeatedRow(node, constant);
  auto positions = indices.getDefiningOp<nn::PositionsOp>();
  if (!positions)
    return emitUnsupported(node) << "only rows of a parameter can be looked up, by token id or by position";
  auto layout = getLayoutByPosition(indices, width);
  if (!layout)
    return emitUnsupported(node) << "its positions are repeated in another way than for each batch item";
  define(node,
         nn::PositionEmbeddingOp::create(builder, node.getLoc(), tokenType(width), table, Value(),
                                         positions.getOffsetAttr()),
         *layout);
  return success();
}

/// Of rows that are looked up by indices [.., sequence], the same for each batch item.
std::optional<AxisLayout> TokenFlattener::getLayoutByPosition(Value indices, int64_t width) const {
  SmallVector<AxisLayout::Pieces> axes;
  for (int64_t size : getShape(indices).drop_back()) {
    axes.emplace_back();
    if (size == batch)
      axes.back().push_back({0, batch, 1});
    else if (size != 1)
      return std::nullopt;
  }
  axes.push_back({{1, sequence, 1}});
  axes.push_back({{2, width, 1}});
  return AxisLayout(axes);
}

/// All tokens are of one type.
LogicalResult TokenFlattener::flattenRepeatedRow(nn::OnnxOp node, nn::ConstantOp indices) {
  Value table = node.getInputs()[0];
  auto layout = getLayoutByPosition(indices, getShape(table)[1]);
  auto row = getSplat(indices);
  if (!layout || !row || getShape(indices).back() != sequence)
    return emitUnsupported(node) << "only rows of a parameter can be looked up, by token id or by position";
  define(
      node,
      nn::RepeatRowOp::create(builder, node.getLoc(), tokenType(getShape(table)[1]), table, static_cast<int64_t>(*row)),
      *layout);
  return success();
}

LogicalResult TokenFlattener::flattenLinear(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  Value weight = node.getInputs()[1];
  if (!x || !hasWholeRows(*x))
    return emitUnsupported(node) << "its input is not all features of each token";
  Value bias = node.getInputs().size() == 3 ? node.getInputs()[2] : Value();
  int64_t outputs = getShape(weight)[0];
  SmallVector<AxisLayout::Pieces> axes(x->layout.getAxes());
  axes.back() = {{2, outputs, 1}};
  Value flat = nn::LinearOp::create(builder, node.getLoc(), tokenType(outputs), x->flat, weight, bias, Value());
  define(node, flat, AxisLayout(axes));
  return success();
}

/// What is added to a norm's weight; null where nothing is.
static FloatAttr getOffset(nn::OnnxOp norm) {
  double offset = getFloat(norm, "weight_offset");
  return offset == 0 ? FloatAttr() : FloatAttr::get(Float32Type::get(norm.getContext()), toFloat(offset));
}

LogicalResult TokenFlattener::flattenNorm(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  bool isRms = node.getOpType() == "RMSNormalization";
  if (!x || node.getInputs().size() < 2)
    return emitUnsupported(node) << "a norm needs an activation and a weight";
  Value weight = node.getInputs()[1], bias = node.getInputs().size() > 2 ? node.getInputs()[2] : Value();
  int64_t run = getRun(*x);
  if (bias && isSplat(bias, 0))
    bias = Value();
  // A norm without a weight has ones.
  if (getShape(weight) == ArrayRef<int64_t>{run} && isSplat(weight, 1))
    weight = nn::FillOp::create(builder, node.getLoc(), weight.getType(), builder.getF32FloatAttr(1.0f));
  else if (!isParameterVector(weight, run))
    return emitUnsupported(node) << "its weight is not a vector of parameters over the last axis";
  if (bias && !isParameterVector(bias, run))
    return emitUnsupported(node) << "its bias is not a vector of parameters over the last axis";
  APFloat epsilon = toFloat(getFloat(node, "epsilon", 1e-5));
  Type type = x->flat.getType();
  Value flat =
      isRms ? Value(nn::RmsNormOp::create(builder, node.getLoc(), type, x->flat, weight, epsilon,
                                          toFloat(getFloat(node, "weight_offset"))))
            : Value(nn::LayerNormOp::create(builder, node.getLoc(), type, x->flat, weight, bias,
                                            builder.getFloatAttr(builder.getF32Type(), epsilon), getOffset(node)));
  define(node, flat, x->layout);
  return success();
}

LogicalResult TokenFlattener::flattenRotary(nn::OnnxOp node) {
  const Token *x = node.getInputs().size() == 1 ? find(node.getInputs()[0]) : nullptr;
  auto frequencies = dyn_cast_or_null<DenseF32ArrayAttr>(getAttribute(node, "frequencies"));
  if (!x || !frequencies)
    return emitUnsupported(node) << "its tables are not cosines and sines of positions from 0, in halves";
  int64_t axis = static_cast<int64_t>(x->layout.getRank()) + getInteger(node, "position_axis");
  if (axis < 0 || !isSequence(x->layout[axis]) || getRun(*x) < 2 * static_cast<int64_t>(frequencies.size()))
    return emitUnsupported(node) << "it does not rotate each head by its token's position";
  if (getAttribute(node, "apart"))
    return emitUnsupported(node) << "it parts rotated pairs, and that not of queries and keys alike";
  auto flat = nn::RopeOp::create(builder, node.getLoc(), x->flat.getType(), x->flat, Value(), getRun(*x),
                                 frequencies.asArrayRef(), toFloat(getFloat(node, "scale", 1)),
                                 getInteger(node, "inverse") != 0, getInteger(node, "interleaved") != 0);
  define(node, flat, x->layout);
  return success();
}

LogicalResult TokenFlattener::refuseAttention(nn::OnnxOp node) {
  if (getFloat(node, "softcap") != 0)
    return emitUnsupported(node) << "it caps its logits in an order that is not known";
  if (node.getInputs().size() > 4)
    return emitUnsupported(node) << "it reads past keys and values; export with use_cache=False";
  if (getShape(node.getInputs()[0]).size() != 4)
    return emitUnsupported(node) << "its operands are not [batch, heads, sequence, width]";
  if (node.getInputs().size() == 4)
    return emitUnsupported(node) << "its mask is not causal, with or without a window; export without padding masks";
  return emitUnsupported(node) << "every token sees the later ones; only causal attention can be trained";
}

LogicalResult TokenFlattener::flattenAttention(nn::OnnxOp node) {
  const bool isBidirectional = static_cast<bool>(getAttribute(node, "bidirectional"));
  if (!getAttribute(node, "window") || (isBidirectional && !main->getParentOfType<ModuleOp>()->hasAttr("mebp.task")))
    return refuseAttention(node);
  const Token *operands[3];
  int64_t heads[3];
  for (int i = 0; i < 3; ++i) {
    const Token *x = operands[i] = find(node.getInputs()[i]);
    int64_t run = x && x->layout.getRank() == 4 ? getRun(*x) : 0;
    heads[i] = run ? features(x->flat) / run : 0;
    ArrayRef<AxisPiece> distinct = run ? x->layout[1] : ArrayRef<AxisPiece>();
    // Keys and values may have been repeated for the queries that share them.
    while (i > 0 && !distinct.empty() && distinct.back().axis == AxisLayout::kRepeated)
      distinct = distinct.drop_back();
    if (!run || !isSequence(x->layout[2]) || !isBatch(x->layout[0]) || !areHeads(distinct, heads[i], run))
      return emitUnsupported(node) << "its operand " << i << " is not [batch, heads, sequence, width]";
  }
  if (heads[1] != heads[2] || heads[0] % heads[1] || getRun(*operands[0]) != getRun(*operands[1]))
    return emitUnsupported(node) << "queries and keys are not of one width, or key heads do not divide the query heads";
  const int64_t width = getRun(*operands[2]);
  SmallVector<AxisLayout::Pieces> axes(operands[0]->layout.getAxes());
  axes[1] = {{2, heads[0], width}}, axes[3] = {{2, width, 1}};
  const AxisLayout layout(axes);
  auto softcap = dyn_cast_or_null<FloatAttr>(getAttribute(node, "softcap"));
  auto slopes = dyn_cast_or_null<DenseF32ArrayAttr>(getAttribute(node, "slopes"));
  if (slopes && softcap)
    return emitUnsupported(node) << "it has a bias by position and caps its logits";
  if (isBidirectional) {
    if (node.getInputs().size() > 3)
      return emitUnsupported(node) << "it has sinks, and every token sees the later ones";
    auto attention = nn::BidirectionalAttentionOp::create(
        builder, node.getLoc(), tokenType(heads[0] * width), tokenType(heads[0]), operands[0]->flat, operands[1]->flat,
        operands[2]->flat, Value(), Value(), heads[0], heads[1], toFloat(getFloat(node, "scale")),
        getInteger(node, "window"), softcap);
    define(node, attention.getOutput(), layout);
    return success();
  }
  Value sinks;
  if (node.getInputs().size() > 3) {
    auto vector = viewParameter(node, node.getInputs()[3], {heads[0]});
    if (failed(vector))
      return failure();
    sinks = *vector;
  }
  auto attention =
      nn::AttentionOp::create(builder, node.getLoc(), tokenType(heads[0] * width), tokenType(heads[0]),
                              operands[0]->flat, operands[1]->flat, operands[2]->flat, Value(), sinks, heads[0],
                              heads[1], toFloat(getFloat(node, "scale")), getInteger(node, "window"),
                              /*capacity=*/0, softcap, slopes);
  define(node, attention.getOutput(), layout);
  return success();
}

Value TokenFlattener::scale(nn::OnnxOp node, Value x, double alpha, double shift) {
  if (auto inner = x.getDefiningOp<nn::ScaleOp>()) {
    shift += alpha * (inner.getShift() ? inner.getShift()->convertToDouble() : 0);
    alpha *= inner.getAlpha().convertToDouble();
    x = inner.getX();
  }
  if (alpha == 1 && shift == 0)
    return x;
  auto number = [&](double value) { return builder.getF32FloatAttr(static_cast<float>(value)); };
  return nn::ScaleOp::create(builder, node.getLoc(), x.getType(), x, number(alpha),
                             shift == 0 ? FloatAttr() : number(shift));
}

LogicalResult TokenFlattener::flattenSquare(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  if (!x || node.getInputs().size() != 2 || !isSplat(node.getInputs()[1], 2))
    return emitUnsupported(node) << "activations can be squared, and raised to no other power";
  define(node, nn::MultiplyOp::create(builder, node.getLoc(), x->flat.getType(), x->flat, x->flat), x->layout);
  return success();
}

LogicalResult TokenFlattener::flattenScaled(nn::OnnxOp node) {
  const Token *x = find(node.getInputs()[0]);
  std::optional<double> factor;
  if (node.getOpType() == "Neg")
    factor = -1;
  else if (auto number = getSplat(node.getInputs()[1]))
    factor = node.getOpType() == "Div" ? 1 / *number : *number;
  if (!x || !factor || getShape(node.getInputs()[0]) != getShape(node.getOutputs()[0]))
    return emitUnsupported(node) << "activations can be divided by one number only";
  define(node, scale(node, x->flat, *factor), x->layout);
  return success();
}

LogicalResult TokenFlattener::flattenBinary(nn::OnnxOp node) {
  Value first = node.getInputs()[0], second = node.getInputs()[1];
  const Token *a = find(first), *b = find(second);
  if (!a != !b && node.getOpType() != "Gated")
    if (auto number = getSplat(a ? second : first);
        number && getShape(a ? first : second) == getShape(node.getOutputs()[0])) {
      const Token &x = a ? *a : *b;
      bool isSum = node.getOpType() == "Add";
      define(node, scale(node, x.flat, isSum ? 1 : *number, isSum ? *number : 0), x.layout);
      return success();
    }
  for (Value operand : {first, second})
    if (auto read = operand.getDefiningOp<nn::ReadParameterOp>())
      return emitUnsupported(node)
             << "it combines an activation with '" << read.getParameter()
             << "', which is neither the weight of a norm nor the bias of a linear layer; if export made a table of "
                "positions of it, export with optimize=False";
  auto layout = a && b ? combine(a->layout, b->layout) : std::nullopt;
  if (!layout || a->flat.getType() != b->flat.getType())
    return emitUnsupported(node) << "its operands are not two activations of the same shape and order of features";
  Value flat;
  if (node.getOpType() == "Add")
    flat = nn::AddOp::create(builder, node.getLoc(), a->flat.getType(), a->flat, b->flat);
  else if (node.getOpType() == "Mul")
    flat = nn::MultiplyOp::create(builder, node.getLoc(), a->flat.getType(), a->flat, b->flat);
  else { // x σ(f x) up = silu(f x) (up / f)
    double factor = getFloat(node, "factor", 1);
    Value gate = scale(node, a->flat, factor), up = scale(node, b->flat, 1 / factor);
    flat = nn::GatedOp::create(builder, node.getLoc(), gate.getType(), gate, up,
                               cast<StringAttr>(getAttribute(node, "activation")));
  }
  define(node, flat, *layout);
  return success();
}
