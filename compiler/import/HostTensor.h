// SPDX-License-Identifier: Apache-2.0
//
// Constants of a graph while it is read, and the rules for shapes that constants and activations share.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mebp {

using Extents = llvm::SmallVector<int64_t, 4>;

/// A constant. All kinds are held as f64, which is exact but for the sentinels near 2^63 that slices end in.
struct HostTensor {
  enum class Kind { Float, Integer, Boolean };
  /// Cosines and sines stay unevaluated, so that a rotary table's angles can be read back exactly.
  enum class Function { Identity, Cos, Sin };

  Kind kind = Kind::Float;
  Extents shape;
  std::vector<double> data; // an element's value is scale * function(data)
  Function function = Function::Identity;
  double scale = 1;

  /// The same values with function Identity and scale 1.
  HostTensor evaluated() const;
  /// The elements as integers, those beyond int64 clamped.
  llvm::SmallVector<int64_t> integers() const;
};

using SharedTensor = std::shared_ptr<const HostTensor>;

/// More elements than this are no table that a decoder needs; folding them would take gigabytes.
constexpr int64_t kLargestTable = int64_t(1) << 26;

/// How many elements a shape has; nullopt where a size is negative or the product has no place in 62 bits.
std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
/// An axis counted from the back made one from the front; nullopt where there is none such.
std::optional<int64_t> normalizedAxis(int64_t axis, int64_t rank);
std::optional<Extents> broadcastShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// What Reshape makes of its request: -1 takes the rest and 0 keeps the size, unless `allowZero`.
std::optional<Extents> reshapedShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> request, bool allowZero);
/// Row-major strides; those of axes of size 1 are 0, so that they broadcast.
Extents broadcastStrides(llvm::ArrayRef<int64_t> shape);

/// What Slice takes of one axis: `size` elements from `start`, `step` apart.
struct SliceRange {
  int64_t start, size, step;
};
SliceRange sliceRange(int64_t start, int64_t end, int64_t step, int64_t extent);

} // namespace mebp
