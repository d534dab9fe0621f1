// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/AxisLayout.h"

using namespace mebp;

/// Appends, as one piece where the two lie one after the other.
static void append(AxisLayout::Pieces &pieces, AxisPiece piece) {
  if (piece.size == 1)
    return;
  if (!pieces.empty() && pieces.back().axis == piece.axis && piece.axis != AxisLayout::kRepeated &&
      pieces.back().stride == piece.size * piece.stride)
    pieces.back() = {piece.axis, pieces.back().size * piece.size, piece.stride};
  else
    pieces.push_back(piece);
}

AxisLayout::AxisLayout(llvm::ArrayRef<Pieces> unmerged) {
  for (const Pieces &pieces : unmerged) {
    axes.emplace_back();
    for (const AxisPiece &piece : pieces)
      append(axes.back(), piece);
  }
}

AxisLayout AxisLayout::identity(llvm::ArrayRef<int64_t> shape) {
  AxisLayout layout;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    layout.axes.emplace_back();
    append(layout.axes.back(), {static_cast<int64_t>(axis), shape[axis], 1});
  }
  return layout;
}

Extents AxisLayout::getShape() const {
  Extents shape;
  for (const Pieces &pieces : axes) {
    shape.push_back(1);
    for (const AxisPiece &piece : pieces)
      shape.back() *= piece.size;
  }
  return shape;
}

AxisLayout AxisLayout::transposed(llvm::ArrayRef<int64_t> permutation) const {
  AxisLayout result;
  for (int64_t axis : permutation)
    result.axes.push_back(axes[axis]);
  return result;
}

std::optional<AxisLayout> AxisLayout::reshaped(llvm::ArrayRef<int64_t> shape) const {
  llvm::SmallVector<AxisPiece> rest;
  for (const Pieces &pieces : llvm::reverse(axes))
    rest.append(pieces.rbegin(), pieces.rend());
  // Pieces are taken from the outermost on, and cut where a new axis ends inside one.
  AxisLayout result;
  for (int64_t size : shape) {
    result.axes.emplace_back();
    while (size > 1) {
      if (rest.empty())
        return std::nullopt;
      AxisPiece piece = rest.pop_back_val();
      if (piece.size > size) {
        if (piece.size % size)
          return std::nullopt;
        int64_t inner = piece.size / size;
        rest.push_back({piece.axis, inner, piece.stride});
        piece = {piece.axis, size, piece.axis == kRepeated ? 0 : piece.stride * inner};
      }
      if (size % piece.size)
        return std::nullopt;
      size /= piece.size;
      append(result.axes.back(), piece);
    }
  }
  if (!rest.empty())
    return std::nullopt;
  return result;
}

std::optional<AxisLayout> AxisLayout::expanded(llvm::ArrayRef<int64_t> shape) const {
  if (shape.size() < axes.size())
    return std::nullopt;
  AxisLayout result;
  result.axes.resize(shape.size() - axes.size());
  result.axes.append(axes.begin(), axes.end());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (result.axes[axis].empty())
      append(result.axes[axis], {kRepeated, shape[axis], 0});
  if (result.getShape() != Extents(shape))
    return std::nullopt;
  return result;
}
