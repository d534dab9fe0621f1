// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/HostTensor.h"

namespace mebp {

/// A piece of a base tensor's axis: `size` elements that lie `stride` apart on it.
struct AxisPiece {
  int64_t axis, size, stride;
  bool operator==(const AxisPiece &other) const {
    return axis == other.axis && size == other.size && stride == other.stride;
  }
};

/// How a tensor that reshapes and transposes have made of a base tensor is seen in it: each axis is a list of pieces of
/// the base's axes, outermost first. Pieces of size 1 are left out, so an axis of size 1 has none.
class AxisLayout {
public:
  /// The axis number of what Expand repeats.
  static constexpr int64_t kRepeated = -1;
  using Pieces = llvm::SmallVector<AxisPiece, 2>;

  AxisLayout() = default;
  explicit AxisLayout(llvm::ArrayRef<Pieces> axes);
  /// The base tensor as it is.
  static AxisLayout identity(llvm::ArrayRef<int64_t> shape);

  size_t getRank() const { return axes.size(); }
  llvm::ArrayRef<AxisPiece> operator[](size_t axis) const { return axes[axis]; }
  llvm::ArrayRef<Pieces> getAxes() const { return axes; }
  Extents getShape() const;
  bool operator==(const AxisLayout &other) const { return axes == other.axes; }
  bool operator!=(const AxisLayout &other) const { return axes != other.axes; }

  AxisLayout transposed(llvm::ArrayRef<int64_t> permutation) const;
  /// nullopt where a new axis would take a part of a piece that cannot be taken apart.
  std::optional<AxisLayout> reshaped(llvm::ArrayRef<int64_t> shape) const;
  std::optional<AxisLayout> expanded(llvm::ArrayRef<int64_t> shape) const;

private:
  llvm::SmallVector<Pieces, 4> axes;
};

} // namespace mebp
