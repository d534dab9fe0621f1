// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Evaluate.h"

using namespace mlir;
using namespace mebp;

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
