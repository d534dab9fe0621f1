// SPDX-License-Identifier: Apache-2.0
//
// Ops that move elements: they keep a tensor's `function`, so that a rotary table stays one.
#include "compiler/import/Evaluate.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;
using Results = std::optional<SmallVector<HostTensor, 1>>;

/// A tensor like `source`, of another shape, without data yet.
static HostTensor emptyLike(const HostTensor &source, ArrayRef<int64_t> shape) {
  HostTensor result;
  result.kind = source.kind;
  result.function = source.function;
  result.scale = source.scale;
  result.shape.assign(shape.begin(), shape.end());
  result.data.reserve(elementCount(shape).value_or(0));
  return result;
}

static std::optional<HostTensor> withShape(const HostTensor &source, std::optional<Extents> shape) {
  if (!shape || elementCount(*shape) != static_cast<int64_t>(source.data.size()))
    return std::nullopt;
  HostTensor result = source;
  result.shape = *shape;
  return result;
}

/// The elements at `start` and from there by `strides`, in the order of `shape`.
static HostTensor gatherStrided(const HostTensor &source, ArrayRef<int64_t> shape, const Extents &strides,
                                int64_t start = 0) {
  HostTensor result = emptyLike(source, shape);
  forEachElement(shape, {strides},
                 [&](int64_t, ArrayRef<int64_t> at) { result.data.push_back(source.data[start + at[0]]); });
  return result;
}

static std::optional<HostTensor> expand(const HostTensor &source, ArrayRef<int64_t> request) {
  auto shape = broadcastShape(source.shape, request);
  if (!shape || !fitsTable(*shape))
    return std::nullopt;
  return gatherStrided(source, *shape, alignedStrides(source.shape, shape->size()));
}

static std::optional<HostTensor> tile(const HostTensor &source, ArrayRef<int64_t> repeats) {
  if (repeats.size() != source.shape.size() || llvm::any_of(repeats, [](int64_t count) { return count < 1; }))
    return std::nullopt;
  // [a, b] is repeated as [1, a, 1, b] is expanded.
  HostTensor apart = source;
  Extents within, whole;
  apart.shape.clear();
  for (auto [size, count] : llvm::zip(source.shape, repeats)) {
    apart.shape.append({1, size});
    within.append({count, size});
    whole.push_back(count * size);
  }
  auto repeated = expand(apart, within);
  return repeated ? withShape(*repeated, whole) : std::nullopt;
}

static std::optional<HostTensor> slice(const HostTensor &source, int64_t axis, SliceRange range) {
  Extents strides = rowMajorStrides(source.shape);
  Extents shape = source.shape;
  int64_t start = range.start * strides[axis];
  shape[axis] = range.size;
  strides[axis] *= range.step;
  return gatherStrided(source, shape, strides, start);
}

static std::optional<HostTensor> sliceAxes(TensorRefs inputs) {
  if (inputs.size() < 3 || !inputs[1] || !inputs[2])
    return std::nullopt;
  const HostTensor &source = *inputs[0];
  auto starts = inputs[1]->integers(), ends = inputs[2]->integers();
  std::optional<HostTensor> result = source;
  auto axes = inputs.size() > 3 && inputs[3] ? inputs[3]->integers() : SmallVector<int64_t>();
  auto steps = inputs.size() > 4 && inputs[4] ? inputs[4]->integers() : SmallVector<int64_t>(starts.size(), 1);
  if (starts.size() > source.shape.size() || starts.size() != ends.size() || steps.size() != starts.size())
    return std::nullopt;
  for (size_t i = 0; result && i < starts.size(); ++i) {
    auto axis = normalizedAxis(i < axes.size() ? axes[i] : static_cast<int64_t>(i), source.shape.size());
    if (!axis || steps[i] == 0)
      return std::nullopt;
    result = slice(*result, *axis, sliceRange(starts[i], ends[i], steps[i], result->shape[*axis]));
  }
  return result;
}

static std::optional<HostTensor> gather(const HostTensor &source, const HostTensor &indices, int64_t axis) {
  auto front = normalizedAxis(axis, source.shape.size());
  if (!front)
    return std::nullopt;
  Extents shape = gatheredShape(source.shape, indices.shape, *front);
  if (!fitsTable(shape))
    return std::nullopt;
  int64_t extent = source.shape[*front];
  int64_t inner = *elementCount(ArrayRef(source.shape).drop_front(*front + 1));
  int64_t outer = *elementCount(ArrayRef(source.shape).take_front(*front));
  HostTensor result = emptyLike(source, shape);
  SmallVector<int64_t> rows = indices.integers();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row : rows) {
      row = row < 0 ? row + extent : row;
      if (row < 0 || row >= extent)
        return std::nullopt;
      auto begin = source.data.begin() + (o * extent + row) * inner;
      result.data.insert(result.data.end(), begin, begin + inner);
    }
  return result;
}

static std::optional<HostTensor> gatherTuples(const HostTensor &source, const HostTensor &indices) {
  if (indices.shape.empty() || indices.shape.back() < 1 ||
      indices.shape.back() > static_cast<int64_t>(source.shape.size()))
    return std::nullopt;
  int64_t width = indices.shape.back();
  Extents shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.append(source.shape.begin() + width, source.shape.end());
  if (!fitsTable(shape))
    return std::nullopt;
  Extents strides = rowMajorStrides(source.shape);
  int64_t inner = *elementCount(ArrayRef(source.shape).drop_front(width));
  HostTensor result = emptyLike(source, shape);
  SmallVector<int64_t> tuples = indices.integers();
  for (size_t at = 0; at + width <= tuples.size(); at += width) {
    int64_t offset = 0;
    for (int64_t axis = 0; axis < width; ++axis) {
      int64_t index = tuples[at + axis];
      index = index < 0 ? index + source.shape[axis] : index;
      if (index < 0 || index >= source.shape[axis])
        return std::nullopt;
      offset += index * strides[axis];
    }
    result.data.insert(result.data.end(), source.data.begin() + offset, source.data.begin() + offset + inner);
  }
  return result;
}

static std::optional<HostTensor> concatenate(TensorRefs inputs, int64_t axis) {
  auto front = normalizedAxis(axis, inputs[0]->shape.size());
  if (!front)
    return std::nullopt;
  auto shape = concatenatedShape(
      llvm::map_to_vector(inputs, [](const HostTensor *input) -> ArrayRef<int64_t> { return input->shape; }), *front);
  if (!shape || !fitsTable(*shape))
    return std::nullopt;
  bool alike = llvm::all_of(inputs, [&](const HostTensor *input) {
    return input->function == inputs[0]->function && input->scale == inputs[0]->scale;
  });
  SmallVector<HostTensor> parts;
  for (const HostTensor *input : inputs)
    parts.push_back(alike ? *input : input->evaluated());
  HostTensor result = emptyLike(parts[0], *shape);
  int64_t outer = *elementCount(ArrayRef(*shape).take_front(*front));
  for (int64_t o = 0; o < outer; ++o)
    for (const HostTensor &part : parts) {
      size_t run = part.data.size() / std::max<int64_t>(outer, 1);
      result.data.insert(result.data.end(), part.data.begin() + o * run, part.data.begin() + (o + 1) * run);
    }
  return result;
}

static Results split(const OnnxNode &node, TensorRefs inputs) {
  const HostTensor &source = *inputs[0];
  auto axis = normalizedAxis(node.getInteger("axis", 0), source.shape.size());
  if (!axis)
    return std::nullopt;
  auto sizes = splitSizes(node, source.shape[*axis], inputs.size() > 1 ? inputs[1] : nullptr);
  if (!sizes)
    return std::nullopt;
  SmallVector<HostTensor, 1> results;
  int64_t start = 0;
  for (int64_t size : *sizes) {
    results.push_back(*slice(source, *axis, {start, size, 1}));
    start += size;
  }
  return results;
}

static std::optional<HostTensor> transpose(const OnnxNode &node, const HostTensor &source) {
  auto axes = permutation(node, source.shape.size());
  if (!axes)
    return std::nullopt;
  Extents from = rowMajorStrides(source.shape), shape, strides;
  for (int64_t axis : *axes) {
    shape.push_back(source.shape[axis]);
    strides.push_back(from[axis]);
  }
  return gatherStrided(source, shape, strides);
}

static std::optional<HostTensor> keepTriangle(const OnnxNode &node, TensorRefs inputs) {
  HostTensor result = inputs[0]->evaluated();
  size_t rank = result.shape.size();
  if (rank < 2 || (inputs.size() > 1 && inputs[1] && inputs[1]->data.size() != 1))
    return std::nullopt;
  int64_t diagonal = inputs.size() > 1 && inputs[1] ? inputs[1]->integers()[0] : 0;
  diagonal = std::clamp(diagonal, -kLargestTable, kLargestTable);
  bool upper = node.getInteger("upper", 1);
  int64_t rows = result.shape[rank - 2], columns = result.shape[rank - 1];
  for (size_t at = 0; at < result.data.size(); ++at) {
    int64_t column = at % columns, row = at / columns % rows;
    if (upper ? column < row + diagonal : column > row + diagonal)
      result.data[at] = 0;
  }
  return result;
}

Results mebp::evaluateMovement(const OnnxNode &node, TensorRefs inputs) {
  StringRef op = node.getOp();
  auto one = [](std::optional<HostTensor> result) -> Results {
    return result ? Results({std::move(*result)}) : std::nullopt;
  };
  if (inputs.empty() || !inputs[0])
    return std::nullopt;
  const HostTensor &source = *inputs[0];
  if (isView(op))
    return one(withShape(source, viewShape(node, source.shape, inputs.size() > 1 ? inputs[1] : nullptr)));
  if (op == "Transpose")
    return one(transpose(node, source));
  if (op == "Slice")
    return one(sliceAxes(inputs));
  if (op == "Split")
    return split(node, inputs);
  if (op == "Trilu")
    return one(keepTriangle(node, inputs));
  if (op == "ConstantOfShape") {
    HostTensor value{Kind::Float, {}, {0}};
    if (const onnx::Attribute *attribute = node.find("value")) {
      auto read = node.getFile().readConstant(attribute->t());
      if (failed(read) || read->data.size() != 1)
        return std::nullopt;
      value = std::move(*read);
      value.shape.clear();
    }
    return one(expand(value, source.integers()));
  }
  if (llvm::is_contained(inputs, nullptr))
    return std::nullopt;
  if (op == "Concat")
    return one(concatenate(inputs, node.getInteger("axis", 0)));
  if (inputs.size() < 2)
    return std::nullopt;
  if (op == "Expand")
    return one(expand(source, inputs[1]->integers()));
  if (op == "Tile")
    return one(tile(source, inputs[1]->integers()));
  if (op == "Gather")
    return one(gather(source, inputs[1]->evaluated(), node.getInteger("axis", 0)));
  if (op == "GatherND" && node.getInteger("batch_dims", 0) == 0)
    return one(gatherTuples(source, inputs[1]->evaluated()));
  return std::nullopt;
}
