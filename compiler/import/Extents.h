// SPDX-License-Identifier: Apache-2.0
//
// Shapes of a graph's tensors, and what ONNX says of axes, ranges and broadcasting.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>

namespace mebp {

using Extents = llvm::SmallVector<int64_t, 4>;

/// How many elements a shape has; nullopt where it has more than 32 axes, a size is negative or the product has no
/// place in 62 bits.
std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// An axis counted from the back made one from the front; nullopt where there is none such.
std::optional<int64_t> normalizedAxis(int64_t axis, int64_t rank);
std::optional<Extents> broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// What Reshape makes of its request: -1 takes the rest and 0 keeps the size, unless `allowZero`.
std::optional<Extents> reshapedShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> request, bool allowZero);

Extents rowMajorStrides(llvm::ArrayRef<int64_t> shape);
/// Those seen from a result of `rank`, 0 along what broadcasts.
Extents alignedStrides(llvm::ArrayRef<int64_t> shape, size_t rank);

/// What Slice takes of one axis: `size` elements from `start`, `step` apart.
struct SliceRange {
  int64_t start, size, step;
};
SliceRange sliceRange(int64_t start, int64_t end, int64_t step, int64_t extent);

} // namespace mebp
