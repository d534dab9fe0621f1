// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Extents.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace mebp;

std::optional<int64_t> mebp::elementCount(llvm::ArrayRef<int64_t> shape) {
  constexpr int64_t limit = int64_t(1) << 62;
  int64_t count = 1;
  bool empty = llvm::is_contained(shape, 0);
  if (shape.size() > 32)
    return std::nullopt;
  for (int64_t size : shape) {
    if (size < 0 || (size > 0 && count > limit / size))
      return std::nullopt;
    count *= std::max<int64_t>(size, 1);
  }
  return empty ? 0 : count;
}

std::optional<int64_t> mebp::normalizedAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

std::optional<Extents> mebp::broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
  Extents result(std::max(a.size(), b.size()), 1);
  for (llvm::ArrayRef<int64_t> shape : {a, b})
    for (size_t fromBack = 1; fromBack <= shape.size(); ++fromBack) {
      int64_t size = shape[shape.size() - fromBack];
      int64_t &combined = result[result.size() - fromBack];
      if (size < 0 || (size != combined && size != 1 && combined != 1))
        return std::nullopt;
      if (combined == 1)
        combined = size;
    }
  return result;
}

std::optional<Extents> mebp::reshapedShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> request,
                                           bool allowZero) {
  auto count = elementCount(shape);
  Extents result(request);
  int64_t *inferred = nullptr;
  for (size_t axis = 0; axis < result.size(); ++axis) {
    if (result[axis] == 0 && !allowZero) {
      if (axis >= shape.size())
        return std::nullopt;
      result[axis] = shape[axis];
    }
    if (result[axis] == -1) {
      if (inferred)
        return std::nullopt;
      inferred = &result[axis];
      result[axis] = 1;
    }
  }
  auto known = elementCount(result);
  if (!count || !known)
    return std::nullopt;
  if (inferred) {
    if (*known == 0 || *count % *known)
      return std::nullopt;
    *inferred = *count / *known;
  } else if (*known != *count) {
    return std::nullopt;
  }
  return result;
}

Extents mebp::alignedStrides(llvm::ArrayRef<int64_t> shape, size_t rank) {
  Extents strides(rank - shape.size(), 0);
  llvm::append_range(strides, rowMajorStrides(shape));
  for (auto [stride, size] : llvm::zip(llvm::drop_begin(strides, rank - shape.size()), shape))
    if (size == 1)
      stride = 0;
  return strides;
}

SliceRange mebp::sliceRange(int64_t start, int64_t end, int64_t step, int64_t extent) {
  // Longer steps take nothing more, and could overflow.
  int64_t longest = std::max<int64_t>(extent, 1);
  step = std::clamp(step, -longest, longest);
  auto fromFront = [&](int64_t index) {
    if (index < 0)
      index = index < -extent ? -1 : index + extent;
    return std::clamp<int64_t>(index, step > 0 ? 0 : -1, step > 0 ? extent : extent - 1);
  };
  if (step > 0 && start < -extent)
    start = 0;
  if (step > 0 && end < -extent)
    end = 0;
  int64_t first = fromFront(start), last = fromFront(end);
  int64_t size = step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step;
  return {first, std::max<int64_t>(size, 0), step};
}

Extents mebp::rowMajorStrides(llvm::ArrayRef<int64_t> shape) {
  Extents strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}
