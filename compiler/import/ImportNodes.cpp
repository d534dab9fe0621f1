// SPDX-License-Identifier: Apache-2.0
//
// One method for each kind of node that reads an activation. Ops that say the same in several ways become one: all
// views are Reshape, operands that must be constants become attributes, and what changes nothing vanishes.
#include "compiler/import/GraphImporter.h"
#include "compiler/import/MaterializeConstant.h"
#include "compiler/import/OnnxMatchers.h"
#include "compiler/import/ResultShapes.h"
#include "dialects/nn/ImportOps.h"

#include "format/kernels.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

GraphImporter::Method GraphImporter::findMethod(StringRef op) {
  return llvm::StringSwitch<Method>(op)
      .Cases({"Shape", "Size"}, &GraphImporter::importShape)
      .Cases({"Identity", "Cast", "CastLike"}, &GraphImporter::importCast)
      .Case("Dropout", &GraphImporter::importDropout)
      .Cases({"Reshape", "Unsqueeze", "Squeeze", "Flatten"}, &GraphImporter::importView)
      .Case("Transpose", &GraphImporter::importTranspose)
      .Case("Slice", &GraphImporter::importSlice)
      .Cases({"Split", "SplitToSequence"}, &GraphImporter::importSplit)
      .Case("SequenceAt", &GraphImporter::importSequenceAt)
      .Case("Expand", &GraphImporter::importExpand)
      .Case("Concat", &GraphImporter::importConcat)
      .Case("Gather", &GraphImporter::importGather)
      .Case("GatherND", &GraphImporter::importGatherND)
      .Case("ReduceMean", &GraphImporter::importReduceMean)
      .Cases({"ReduceSum", "ReduceMax"}, &GraphImporter::importReduction)
      .Case("TopK", &GraphImporter::importTopK)
      .Case("ArgMax", &GraphImporter::importArgMax)
      .Cases({"GatherElements", "ScatterElements"}, &GraphImporter::importGatherElements)
      .Case("MatMul", &GraphImporter::importMatMul)
      .Case("Gemm", &GraphImporter::importGemm)
      .Cases({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}, &GraphImporter::importBinary)
      .Cases({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or"}, &GraphImporter::importBinary)
      .Case("Where", &GraphImporter::importWhere)
      .Cases({"Not", "IsNaN"}, &GraphImporter::importUnary)
      .Case("Clip", &GraphImporter::importClip)
      .Cases({"Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal"}, &GraphImporter::importUnary)
      .Cases({"Sigmoid", "Tanh", "Erf", "Softplus"}, &GraphImporter::importUnary)
      .Default(isLikeFirst(op)                    ? &GraphImporter::importLikeFirst
               : format::findActivationOfNode(op) ? &GraphImporter::importUnary
                                                  : nullptr);
}

LogicalResult GraphImporter::importOp(const OnnxNode &node, Entries &inputs) {
  if (inputs.empty() || !inputs[0])
    return node.emitMismatch();
  Method method = findMethod(node.getOp());
  return method ? (this->*method)(node, inputs) : refuse(node);
}

LogicalResult GraphImporter::importShape(const OnnxNode &node, Entries &inputs) {
  Extents shape = getShape(*inputs[0]);
  if (node.getOp() == "Size") {
    define(node.getProto().output(0), {Kind::Integer, {}, {static_cast<double>(*elementCount(shape))}});
    return success();
  }
  int64_t rank = shape.size();
  SliceRange range = sliceRange(node.getInteger("start", 0), node.getInteger("end", rank), 1, rank);
  auto sizes = ArrayRef(shape).slice(range.start, range.size);
  define(node.getProto().output(0), {Kind::Integer, {range.size}, {sizes.begin(), sizes.end()}});
  return success();
}

LogicalResult GraphImporter::importCast(const OnnxNode &node, Entries &inputs) {
  Type from = getType(*inputs[0]).getElementType();
  std::optional<Kind> to;
  if (node.getOp() == "Cast")
    to = element::kind(static_cast<int>(node.getInteger("to", 0)));
  bool keeps = node.getOp() == "Identity" || (to && tensorType(&context, {}, *to).getElementType() == from) ||
               (node.getOp() == "CastLike" && inputs.size() == 2 && getType(*inputs[1]).getElementType() == from);
  // A whole number beside an activation, as the 1 of exp(x) − 1.
  if (node.getOp() == "CastLike" && inputs.size() == 2 && inputs[0]->constant && from.isInteger(64) &&
      getType(*inputs[1]).getElementType().isF32()) {
    define(node.getProto().output(0), HostTensor{Kind::Float, inputs[0]->constant->shape, inputs[0]->constant->data});
    return success();
  }
  // A router hides experts by numbers that are 0 or 1.
  if (to == Kind::Boolean && from.isF32())
    return defineCast(node, *inputs[0]);
  if (!keeps)
    return node.emitError() << "casts an activation to another kind of number, which is not supported";
  // CastLike of a constant, like an activation.
  if (inputs[0]->constant) {
    define(node.getProto().output(0), *inputs[0]->constant);
    return success();
  }
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::defineCast(const OnnxNode &node, Entry &input) {
  Value value = getValue(node, input);
  if (!value)
    return failure();
  define(node.getProto().output(0), emit(node, "Cast", value, getShape(input), builder.getI1Type()));
  return success();
}

LogicalResult GraphImporter::importDropout(const OnnxNode &node, Entries &inputs) {
  const HostTensor *ratio = getConstant(inputs, 1), *training = getConstant(inputs, 2);
  auto isZero = [](const HostTensor *number) { return number && number->data.size() == 1 && number->data[0] == 0; };
  bool isOff = inputs.size() < 3 || isZero(training) || isZero(ratio);
  if (!isOff)
    return node.emitError() << "drops activations at random; export the model in eval mode";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::defineShaped(const OnnxNode &node, Entry &input, StringRef opType,
                                          ArrayRef<int64_t> shape) {
  Value value = getValue(node, input);
  if (!value)
    return failure();
  RankedTensorType type = getType(input);
  if (shape != type.getShape())
    value = emit(node, opType, value, shape, type.getElementType());
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::importView(const OnnxNode &node, Entries &inputs) {
  if (inputs.size() > 1 && inputs[1] && !inputs[1]->constant)
    return node.emitError() << "has a shape that depends on an activation, which is not supported";
  RankedTensorType type = getType(*inputs[0]);
  auto shape = viewShape(node, type.getShape(), getConstant(inputs, 1));
  return shape ? defineShaped(node, *inputs[0], "Reshape", *shape) : node.emitMismatch();
}

LogicalResult GraphImporter::importTranspose(const OnnxNode &node, Entries &inputs) {
  RankedTensorType type = getType(*inputs[0]);
  auto axes = permutation(node, type.getRank());
  if (!axes)
    return node.emitMismatch();
  Extents shape;
  for (int64_t axis : *axes)
    shape.push_back(type.getDimSize(axis));
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  if (!llvm::is_sorted(*axes))
    value = emit(node, "Transpose", value, shape, type.getElementType(),
                 builder.getNamedAttr("perm", builder.getDenseI64ArrayAttr(*axes)));
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::importSlice(const OnnxNode &node, Entries &inputs) {
  const HostTensor *starts = getConstant(inputs, 1), *ends = getConstant(inputs, 2);
  const HostTensor *axes = getConstant(inputs, 3), *steps = getConstant(inputs, 4);
  if (!starts || !ends || starts->data.size() != ends->data.size() ||
      (axes && axes->data.size() != starts->data.size()) || (steps && steps->data.size() != starts->data.size()))
    return node.emitError() << "has bounds that are not constants or do not fit together, which is not supported";
  RankedTensorType type = getType(*inputs[0]);
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  Extents shape(type.getShape());
  if (starts->data.size() > shape.size())
    return node.emitMismatch();
  for (size_t i = 0; i < starts->data.size(); ++i) {
    auto axis = normalizedAxis(axes ? axes->integers()[i] : static_cast<int64_t>(i), shape.size());
    if (!axis)
      return node.emitMismatch();
    int64_t step = steps ? steps->integers()[i] : 1;
    if (step < 1)
      return node.emitError() << "takes the elements of an activation in reverse, which is not supported";
    SliceRange range = sliceRange(starts->integers()[i], ends->integers()[i], step, shape[*axis]);
    if (range.size == shape[*axis])
      continue;
    shape[*axis] = range.size;
    // Partial rotary embeddings leave over a part of no features.
    if (range.size == 0) {
      define(node.getProto().output(0), HostTensor{Kind::Float, shape, {}});
      return success();
    }
    SmallVector<NamedAttribute> attributes = {builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis)),
                                              builder.getNamedAttr("start", builder.getI64IntegerAttr(range.start))};
    if (step != 1)
      attributes.push_back(builder.getNamedAttr("step", builder.getI64IntegerAttr(step)));
    value = emit(node, "Slice", value, shape, type.getElementType(), attributes);
  }
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::importSplit(const OnnxNode &node, Entries &inputs) {
  bool toSequence = node.getOp() == "SplitToSequence";
  RankedTensorType type = getType(*inputs[0]);
  auto axis = normalizedAxis(node.getInteger("axis", 0), type.getRank());
  const HostTensor *request = getConstant(inputs, 1);
  if (!axis || (inputs.size() > 1 && !request) || (toSequence && (!request || !node.getInteger("keepdims", 1))))
    return node.emitMismatch();
  auto sizes = splitSizes(node, type.getDimSize(*axis), request);
  if (!sizes || llvm::is_contained(*sizes, 0))
    return node.emitMismatch();
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  Extents shape(type.getShape());
  int64_t start = 0;
  for (auto [index, size] : llvm::enumerate(*sizes)) {
    shape[*axis] = size;
    Value part = emit(node, "Slice", value, shape, type.getElementType(),
                      {builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis)),
                       builder.getNamedAttr("start", builder.getI64IntegerAttr(start))});
    start += size;
    if (toSequence)
      entries[node.getProto().output(0)].parts.push_back(part);
    else
      define(node.getProto().output(index), part);
  }
  return success();
}

LogicalResult GraphImporter::importSequenceAt(const OnnxNode &node, Entries &inputs) {
  const HostTensor *position = getConstant(inputs, 1);
  auto index = position && position->data.size() == 1 ? normalizedAxis(position->integers()[0], inputs[0]->parts.size())
                                                      : std::nullopt;
  if (!index)
    return node.emitMismatch();
  define(node.getProto().output(0), inputs[0]->parts[*index]);
  return success();
}

LogicalResult GraphImporter::importExpand(const OnnxNode &node, Entries &inputs) {
  const HostTensor *request = getConstant(inputs, 1);
  RankedTensorType type = getType(*inputs[0]);
  auto shape = request ? broadcastShape(type.getShape(), request->integers()) : std::nullopt;
  return shape ? defineShaped(node, *inputs[0], "Expand", *shape) : node.emitMismatch();
}

LogicalResult GraphImporter::importConcat(const OnnxNode &node, Entries &inputs) {
  llvm::erase_if(inputs, [&](Entry *entry) { return entry && entry->constant && entry->constant->data.empty(); });
  if (node.getInteger("axis", 0) == 0 &&
      llvm::all_of(inputs, [](Entry *entry) { return entry && entry->isParameter && !entry->value; })) {
    Value joined = joinParameters(node, inputs);
    if (!joined)
      return failure();
    define(node.getProto().output(0), joined);
    return success();
  }
  SmallVector<Value> values;
  if (failed(getValues(node, inputs, values)))
    return failure();
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  Type element = typeOf(values[0]).getElementType();
  auto axis = normalizedAxis(node.getInteger("axis", 0), typeOf(values[0]).getRank());
  if (!axis)
    return node.emitMismatch();
  auto shape =
      concatenatedShape(llvm::map_to_vector(values, [&](Value value) { return typeOf(value).getShape(); }), *axis);
  if (!shape || llvm::any_of(values, [&](Value value) { return typeOf(value).getElementType() != element; }))
    return node.emitMismatch();
  Value value = values[0];
  if (values.size() > 1)
    value =
        emit(node, "Concat", values, *shape, element, builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis)));
  define(node.getProto().output(0), value);
  return success();
}

LogicalResult GraphImporter::importGather(const OnnxNode &node, Entries &inputs) {
  if (inputs.size() != 2 || !inputs[1])
    return node.emitMismatch();
  RankedTensorType type = getType(*inputs[0]), indices = getType(*inputs[1]);
  auto axis = normalizedAxis(node.getInteger("axis", 0), type.getRank());
  if (!axis || !indices.getElementType().isInteger(64))
    return node.emitMismatch();
  SmallVector<Value> values;
  Extents shape = gatheredShape(type.getShape(), indices.getShape(), *axis);
  // One element of an activation's axis is a slice.
  if (const HostTensor *index = getConstant(inputs, 1);
      index && index->data.size() == 1 && indices.getRank() <= 1 && !inputs[0]->isParameter) {
    auto start = normalizedAxis(index->integers()[0], type.getDimSize(*axis));
    Value value = getValue(node, *inputs[0]);
    if (!start || !value)
      return value ? node.emitMismatch() : failure();
    Extents sliced(type.getShape());
    sliced[*axis] = 1;
    if (type.getDimSize(*axis) != 1)
      value = emit(node, "Slice", value, sliced, type.getElementType(),
                   {builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis)),
                    builder.getNamedAttr("start", builder.getI64IntegerAttr(*start))});
    define(node.getProto().output(0), emit(node, "Reshape", value, shape, type.getElementType()));
    return success();
  }
  if (failed(getValues(node, inputs, values)))
    return failure();
  define(node.getProto().output(0), emit(node, "Gather", values, shape, type.getElementType(),
                                         builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis))));
  return success();
}

/// x[[i]], which torch writes for one element of an axis that stays: a slice of the first axis, or of the one that was
/// turned there for it. Where the indices are computed, and say one axis, it is a Gather.
LogicalResult GraphImporter::importGatherND(const OnnxNode &node, Entries &inputs) {
  if (inputs.size() != 2 || !inputs[1])
    return node.emitMismatch();
  const HostTensor *index = getConstant(inputs, 1);
  RankedTensorType type = getType(*inputs[0]);
  if (!index && !node.getInteger("batch_dims", 0) && type.getRank() > 0 && getShape(*inputs[1]).back() == 1)
    return gatherRows(node, inputs);
  auto start =
      index && index->data.size() == 1 ? normalizedAxis(index->integers()[0], type.getDimSize(0)) : std::nullopt;
  if (!start || index->shape.size() != 2 || node.getInteger("batch_dims", 0) || inputs[0]->isParameter)
    return node.emitError() << "takes elements of an activation by their places, which is not supported";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  // All slices of one value become one split.
  nn::OnnxOp turn = getNode(value, "Transpose");
  auto turned = turn ? cast<DenseI64ArrayAttr>(getAttribute(turn, "perm")) : DenseI64ArrayAttr();
  Value source = turn ? turn.getInputs()[0] : value;
  const int64_t axis = turn ? turned[0] : 0;
  Extents sliced(mebp::getShape(source)), shape(type.getShape());
  sliced[axis] = shape[0] = 1;
  Value slice = emit(node, "Slice", source, sliced, type.getElementType(),
                     {builder.getNamedAttr("axis", builder.getI64IntegerAttr(axis)),
                      builder.getNamedAttr("start", builder.getI64IntegerAttr(*start))});
  if (turn)
    slice = emit(node, "Transpose", slice, shape, type.getElementType(), builder.getNamedAttr("perm", turned));
  define(node.getProto().output(0), slice);
  return success();
}

LogicalResult GraphImporter::gatherRows(const OnnxNode &node, Entries &inputs) {
  SmallVector<Value> values;
  if (failed(getValues(node, inputs, values)))
    return failure();
  ArrayRef<int64_t> indices = getShape(*inputs[1]);
  const Extents places(indices.drop_back());
  RankedTensorType type = getType(*inputs[0]);
  values[1] = emit(node, "Reshape", values[1], places, getType(*inputs[1]).getElementType());
  define(node.getProto().output(0),
         emit(node, "Gather", values, gatheredShape(type.getShape(), places, 0), type.getElementType(),
              builder.getNamedAttr("axis", builder.getI64IntegerAttr(0))));
  return success();
}

/// The largest elements of the last axis, and where they are.
LogicalResult GraphImporter::importTopK(const OnnxNode &node, Entries &inputs) {
  const HostTensor *count = getConstant(inputs, 1);
  RankedTensorType type = getType(*inputs[0]);
  auto axis = normalizedAxis(node.getInteger("axis", -1), type.getRank());
  if (!count || count->data.size() != 1 || !axis || *axis != type.getRank() - 1 || !node.getInteger("largest", 1) ||
      node.getProto().output_size() != 2)
    return node.emitError() << "does not take the largest elements of the last axis, which is not supported";
  int64_t number = count->integers()[0];
  if (number < 1 || number > type.getShape().back())
    return node.emitError() << "takes the " << number << " largest of " << type.getShape().back() << " elements";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  Extents shape(type.getShape());
  shape.back() = number;
  Type types[] = {RankedTensorType::get(shape, type.getElementType()),
                  RankedTensorType::get(shape, builder.getI64Type())};
  auto top = nn::OnnxOp::create(builder, node.getLocation(), TypeRange(types), builder.getStringAttr("TopK"), value,
                                DictionaryAttr());
  for (auto [name, result] : llvm::zip(node.getProto().output(), top.getOutputs()))
    define(name, result);
  return success();
}

/// Where the largest element of the last axis is, the first of equals.
LogicalResult GraphImporter::importArgMax(const OnnxNode &node, Entries &inputs) {
  RankedTensorType type = getType(*inputs[0]);
  auto axis = normalizedAxis(node.getInteger("axis", 0), type.getRank());
  if (!axis || *axis != type.getRank() - 1 || !node.getInteger("keepdims", 1) ||
      node.getInteger("select_last_index", 0))
    return node.emitError() << "is not the first of the largest over the last axis, kept at size 1, which is not "
                               "supported";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  Extents shape(type.getShape());
  shape.back() = 1;
  define(node.getProto().output(0), emit(node, "ArgMax", value, shape, builder.getI64Type()));
  return success();
}

/// Elements of the last axis by their places: what is taken, or what is replaced.
LogicalResult GraphImporter::importGatherElements(const OnnxNode &node, Entries &inputs) {
  bool isGather = node.getOp() == "GatherElements";
  if (inputs.size() != (isGather ? 2 : 3) || !inputs[1])
    return node.emitMismatch();
  RankedTensorType type = getType(*inputs[0]), places = getType(*inputs[1]);
  auto axis = normalizedAxis(node.getInteger("axis", 0), type.getRank());
  if (!axis || *axis != type.getRank() - 1 || places.getRank() != type.getRank() ||
      node.getString("reduction", "none") != "none")
    return node.emitError() << "is not over the last axis alone, which is not supported";
  SmallVector<Value> values;
  if (failed(getValues(node, inputs, values)))
    return failure();
  define(node.getProto().output(0),
         emit(node, node.getOp(), values, (isGather ? places : type).getShape(), type.getElementType()));
  return success();
}

/// A sum or the largest, along one axis.
LogicalResult GraphImporter::importReduction(const OnnxNode &node, Entries &inputs) {
  RankedTensorType type = getType(*inputs[0]);
  SmallVector<int64_t> axes = node.getIntegers("axes");
  if (const HostTensor *request = getConstant(inputs, 1))
    axes = request->integers();
  auto axis = axes.size() == 1 ? normalizedAxis(axes[0], type.getRank()) : std::nullopt;
  if (!axis)
    return node.emitError() << "is not along one axis, which is not supported";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  bool keepsAxis = node.getInteger("keepdims", 1);
  Extents shape(type.getShape());
  shape[*axis] = 1;
  if (!keepsAxis)
    shape.erase(shape.begin() + *axis);
  define(node.getProto().output(0), emit(node, node.getOp(), value, shape, type.getElementType(),
                                         {builder.getNamedAttr("axis", builder.getI64IntegerAttr(*axis)),
                                          builder.getNamedAttr("keepdims", builder.getI64IntegerAttr(keepsAxis))}));
  return success();
}

LogicalResult GraphImporter::importReduceMean(const OnnxNode &node, Entries &inputs) {
  RankedTensorType type = getType(*inputs[0]);
  SmallVector<int64_t> axes = node.getIntegers("axes");
  if (const HostTensor *request = getConstant(inputs, 1))
    axes = request->integers();
  auto axis = axes.size() == 1 ? normalizedAxis(axes[0], type.getRank()) : std::nullopt;
  if (!axis || *axis != type.getRank() - 1 || !node.getInteger("keepdims", 1))
    return node.emitError() << "is not over the last axis alone, kept at size 1, which is not supported";
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  Extents shape(type.getShape());
  shape.back() = 1;
  define(node.getProto().output(0), emit(node, "ReduceMean", value, shape, type.getElementType()));
  return success();
}

LogicalResult GraphImporter::importMatMul(const OnnxNode &node, Entries &inputs) {
  SmallVector<Value> values;
  if (inputs.size() != 2)
    return node.emitMismatch();
  if (failed(getValues(node, inputs, values)))
    return failure();
  auto shape = productShape(getShape(*inputs[0]), getShape(*inputs[1]));
  if (!shape)
    return node.emitMismatch();
  define(node.getProto().output(0), emit(node, "MatMul", values, *shape, builder.getF32Type()));
  return success();
}

LogicalResult GraphImporter::importGemm(const OnnxNode &node, Entries &inputs) {
  SmallVector<Value> values;
  if (inputs.size() < 2 || inputs.size() > 3)
    return node.emitMismatch();
  if (failed(getValues(node, inputs, values)))
    return failure();
  ArrayRef<int64_t> a = getType(*inputs[0]).getShape(), b = getType(*inputs[1]).getShape();
  const bool isTransposed = node.getInteger("transB", 0), isFirstTransposed = node.getInteger("transA", 0);
  const double alpha = node.getFloat("alpha", 1), beta = node.getFloat("beta", 1);
  if (a.size() != 2 || b.size() != 2 || a[1] != b[isTransposed ? 1 : 0])
    return node.emitMismatch();
  if (isFirstTransposed || alpha != 1 || (inputs.size() == 3 && beta != 1))
    return node.emitError() << "has transA, alpha or beta, which is not supported; export a plain linear layer";
  int64_t outputs = b[isTransposed ? 0 : 1];
  if (inputs.size() == 3 && getShape(*inputs[2]) != Extents{outputs})
    return node.emitError() << "has a bias that is not one vector, which is not supported";
  if (isTransposed)
    values[1] = emit(node, "Transpose", values[1], {b[1], b[0]}, builder.getF32Type(),
                     builder.getNamedAttr("perm", builder.getDenseI64ArrayAttr({1, 0})));
  define(node.getProto().output(0), emit(node, "Gemm", values, {a[0], outputs}, builder.getF32Type()));
  return success();
}
