// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/ResultShapes.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mebp;

/// Each becomes an op. No model has so many heads or experts.
static constexpr size_t kMostParts = 1024;

bool mebp::isView(StringRef op) { return llvm::is_contained({"Reshape", "Unsqueeze", "Squeeze", "Flatten"}, op); }

static std::optional<Extents> unsqueezed(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  int64_t rank = shape.size() + axes.size();
  SmallVector<bool> isNew(rank, false);
  for (int64_t axis : axes) {
    auto front = normalizedAxis(axis, rank);
    if (!front || isNew[*front])
      return std::nullopt;
    isNew[*front] = true;
  }
  Extents result;
  for (int64_t axis = 0; axis < rank; ++axis) {
    result.push_back(isNew[axis] ? 1 : shape.front());
    shape = isNew[axis] ? shape : shape.drop_front();
  }
  return result;
}

static std::optional<Extents> squeezed(ArrayRef<int64_t> shape, std::optional<ArrayRef<int64_t>> axes) {
  SmallVector<bool> goes(shape.size(), false);
  for (size_t axis = 0; axis < shape.size(); ++axis)
    goes[axis] = !axes && shape[axis] == 1;
  for (int64_t axis : axes.value_or(ArrayRef<int64_t>())) {
    auto front = normalizedAxis(axis, shape.size());
    if (!front || shape[*front] != 1)
      return std::nullopt;
    goes[*front] = true;
  }
  Extents result;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (!goes[axis])
      result.push_back(shape[axis]);
  return result;
}

std::optional<Extents> mebp::viewShape(const OnnxNode &node, ArrayRef<int64_t> shape, const HostTensor *request) {
  SmallVector<int64_t> numbers = request ? request->integers() : SmallVector<int64_t>();
  if (node.getOp() == "Flatten") {
    int64_t axis = node.getInteger("axis", 1), rank = shape.size();
    if (axis < -rank || axis > rank)
      return std::nullopt;
    axis = axis < 0 ? axis + rank : axis;
    return Extents{*elementCount(shape.take_front(axis)), *elementCount(shape.drop_front(axis))};
  }
  if (node.getOp() == "Squeeze")
    return squeezed(shape, request ? std::optional(ArrayRef<int64_t>(numbers)) : std::nullopt);
  if (!request)
    return std::nullopt;
  if (node.getOp() == "Unsqueeze")
    return unsqueezed(shape, numbers);
  return reshapedShape(shape, numbers, node.getInteger("allowzero", 0) != 0);
}

std::optional<SmallVector<int64_t>> mebp::permutation(const OnnxNode &node, int64_t rank) {
  SmallVector<int64_t> axes = node.getIntegers("perm");
  if (axes.empty())
    llvm::append_range(axes, llvm::reverse(llvm::seq(rank)));
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq(rank)))
    return std::nullopt;
  return axes;
}

std::optional<Extents> mebp::concatenatedShape(ArrayRef<ArrayRef<int64_t>> shapes, int64_t axis) {
  Extents result(shapes.front());
  for (ArrayRef<int64_t> shape : shapes.drop_front()) {
    if (shape.size() != result.size())
      return std::nullopt;
    for (auto [i, size] : llvm::enumerate(shape))
      if (static_cast<int64_t>(i) != axis && size != result[i])
        return std::nullopt;
    if (shape[axis] > (int64_t(1) << 62) - result[axis])
      return std::nullopt;
    result[axis] += shape[axis];
  }
  return result;
}

std::optional<SmallVector<int64_t>> mebp::splitSizes(const OnnxNode &node, int64_t extent, const HostTensor *request) {
  bool toSequence = node.getOp() == "SplitToSequence";
  int64_t parts = node.getProto().output_size();
  SmallVector<int64_t> sizes;
  if (request && !(toSequence && request->shape.empty())) {
    sizes = request->integers();
  } else {
    int64_t size = request ? request->integers()[0] : (extent + parts - 1) / parts;
    if (size > 0 && extent / size > int64_t(kMostParts))
      return std::nullopt;
    for (int64_t start = 0; size > 0 && start < extent; start += size)
      sizes.push_back(std::min(size, extent - start));
  }
  if (sizes.size() > kMostParts)
    return std::nullopt;
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - sum)
      return std::nullopt;
    sum += size;
  }
  if (sum != extent || (!toSequence && static_cast<int64_t>(sizes.size()) != parts))
    return std::nullopt;
  return sizes;
}

Extents mebp::gatheredShape(ArrayRef<int64_t> shape, ArrayRef<int64_t> indices, int64_t axis) {
  Extents result(shape.take_front(axis));
  llvm::append_range(result, indices);
  llvm::append_range(result, shape.drop_front(axis + 1));
  return result;
}

std::optional<Extents> mebp::productShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2])
    return std::nullopt;
  auto shape = broadcastShape(a.drop_back(2), b.drop_back(2));
  if (shape)
    shape->append({a[a.size() - 2], b.back()});
  return shape;
}

bool mebp::yieldsBoolean(StringRef op) {
  return llvm::is_contained(
      {"Not", "IsNaN", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"}, op);
}
