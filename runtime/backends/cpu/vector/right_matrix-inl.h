// SPDX-License-Identifier: Apache-2.0
//
// The right factor of a product, panel by panel, and how it gets near the CPU before its turn.
#if defined(MEBP_RIGHT_MATRIX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_RIGHT_MATRIX_INL_H
#undef MEBP_RIGHT_MATRIX_INL_H
#else
#define MEBP_RIGHT_MATRIX_INL_H
#endif

#include "runtime/backends/cpu/vector/expand-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Brings a piece of a weight into the second cache, a portion a call, while something else is computed: rows of a block
// are too short for the CPU to foresee which come next.
class Prefetch {
public:
  Prefetch(const Tensor &w, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t portions) {
    if (row >= w.rows || column >= w.columns)
      return;
    auto bytes = [&](int64_t elements) { return static_cast<int64_t>(format::bytesOf(w.storage, elements)); };
    stride = bytes(w.stride);
    next = static_cast<const unsigned char *>(w.data) + row * stride + bytes(column);
    length = bytes(std::min(columns, w.columns - column));
    left = std::min(rows, w.rows - row);
    rowsOfPortion = ceilDivide(left, portions);
  }

  void portion() {
    constexpr int64_t line = 64;
    for (int64_t r = std::min(rowsOfPortion, left); r > 0; --r, --left, next += stride)
      for (int64_t at = 0; at < length; at += line)
        __builtin_prefetch(next + at, 0, 2);
  }

private:
  const unsigned char *next = nullptr;
  int64_t stride = 0, length = 0, left = 0, rowsOfPortion = 0;
};

// The right factor: w, or its transpose; of w every `step`-th column alone, from the `first` on.
struct RightMatrix {
  const Tensor &w;
  bool transposed;
  int64_t first = 0, step = 1;

  int64_t columns() const { return transposed ? w.rows : w.columns / step; }
  int64_t depth() const { return transposed ? w.columns / step : w.rows; }

  // Fills panel[count][panelWidth].
  void expand(int64_t column, int64_t k, int64_t count, float *panel) const {
    if (step != 1)
      return pick(column, k, count, panel);
    transposed ? expandTransposed(w, column, k, count, panel) : expandPanel(w, k, count, column, panel);
  }
  Prefetch prefetch(int64_t column, int64_t width, int64_t k, int64_t count, int64_t portions) const {
    return transposed ? Prefetch(w, column, width, k, count, portions) : Prefetch(w, k, count, column, width, portions);
  }

private:
  // What lies apart, one by one; columns beyond the last are zeros.
  void pick(int64_t column, int64_t k, int64_t count, float *panel) const {
    const int64_t width = std::min(panelWidth, columns() - column);
    std::fill_n(panel, count * panelWidth, 0.0f);
    for (int64_t i = 0; i < (transposed ? width : count); ++i)
      for (int64_t j = 0; j < (transposed ? count : width); ++j) {
        const int64_t from = transposed ? k + j : column + j;
        float *to = panel + (transposed ? j * panelWidth + i : i * panelWidth + j);
        pickOne((transposed ? column : k) + i, first + from * step, to);
      }
  }
  HWY_INLINE void pickOne(int64_t row, int64_t column, float *to) const {
    if (w.storage == Storage::F32)
      *to = floatRowOf(w, row)[column];
    else
      dequantize(w, row, column, 1, to);
  }
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
