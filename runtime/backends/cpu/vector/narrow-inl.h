// SPDX-License-Identifier: Apache-2.0
//
// Products of few columns, as LoRA's are: panels of 32 would be mostly empty. Both factors lie with the depth along
// their rows, and each result is a dot product.
#if defined(MEBP_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_NARROW_INL_H
#undef MEBP_NARROW_INL_H
#else
#define MEBP_NARROW_INL_H
#endif

#include "runtime/backends/cpu/vector/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t narrowColumns = 16, narrowDepth = 512, narrowTaskRows = 128;

// What fits the registers: rows * 4 sums, 4 of the right factor and one of the left.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int dotRows = 6;
#else
constexpr int dotRows = 2;
#endif

// tile[r][c] = the dot product of left + r * leftStride and right + c * narrowDepth, for `columns` rounded up to four.
template <int Rows, typename Left>
HWY_NOINLINE void multiplyDots(Left left, int64_t leftStride, const float *right, int64_t columns, int64_t depth,
                               float *tile) {
  const FloatTag d;
  for (int64_t c = 0; c < columns; c += 4, right += 4 * narrowDepth) {
    FloatVector sums[Rows][4];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        sums[r][i] = hn::Zero(d);
    for (int64_t k = 0; k < depth; k += lanes) {
      FloatVector factors[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        factors[i] = hn::Load(d, right + i * narrowDepth + k);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        FloatVector value = loadSome(left + (r * leftStride + k), depth - k);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          sums[r][i] = hn::MulAdd(value, factors[i], sums[r][i]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
      hn::StoreU(sumsOf(sums[r][0], sums[r][1], sums[r][2], sums[r][3]), hn::Full128<float>(),
                 tile + r * panelWidth + c);
  }
}

template <int Rows, typename Left>
void multiplyDotRows(int64_t rows, Left left, int64_t leftStride, const float *right, int64_t columns, int64_t depth,
                     float *tile) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return multiplyDotRows<Rows - 1>(rows, left, leftStride, right, columns, depth, tile);
  multiplyDots<Rows>(left, leftStride, right, columns, depth, tile);
}

// As multiplyPanels, for left[rows, depth] right[columns, depth]^T; fill(k, count, out) writes a block of the right
// factor's rows to out[c * narrowDepth], whose memory is zero before.
template <typename Fill, typename Finish>
static void multiplyNarrow(const Context &context, const Tensor &left, int64_t columns, const Fill &fill,
                           const Finish &finish) {
  const int64_t depth = left.columns;
  const int64_t taskRows = std::clamp<int64_t>(ceilDivide(left.rows, threadsOf(context)), 1, narrowTaskRows);
  parallelFor(context, ceilDivide(left.rows, taskRows), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    auto *right = reinterpret_cast<float *>(workspace), *sums = right + narrowColumns * narrowDepth;
    HWY_ALIGN float tile[dotRows * panelWidth];
    int64_t firstRow = task * taskRows, rows = std::min(taskRows, left.rows - firstRow);
    for (int64_t k = 0; k < depth; k += narrowDepth) {
      int64_t count = std::min(narrowDepth, depth - k);
      std::fill_n(right, narrowColumns * narrowDepth, 0.0f);
      fill(k, count, right);
      forEachTile(rows, dotRows, false, [&](int64_t row, int64_t height) HWY_ATTR {
        withRows(
            [&](auto from) HWY_ATTR { multiplyDotRows<dotRows>(height, from, left.stride, right, columns, count, tile); },
            rowOf(left, firstRow + row) + k);
        finish(Products{firstRow + row, height, 0, columns, tile, k == 0, k + count == depth, sums + row * panelWidth});
      });
    }
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
