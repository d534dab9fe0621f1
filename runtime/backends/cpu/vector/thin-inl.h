// SPDX-License-Identifier: Apache-2.0
//
// Products of so few rows that their time is that of reading the weight: each of its rows is read once, from where it
// lies, widened in registers and multiplied with every row of x.
//
// Of a quantised row, w = scale * code + minimum in groups: x w = sum over groups of scale (x code) + minimum (sum of
// x). So codes are multiplied as they are (codes-inl.h), and the minima need one product a group.
#if defined(MEBP_THIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_THIN_INL_H
#undef MEBP_THIN_INL_H
#else
#define MEBP_THIN_INL_H
#endif

#include "runtime/backends/cpu/vector/codes-inl.h"
#include "runtime/backends/cpu/vector/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Of a weight that is not quantised.
inline void multiplyRowsThin(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, int64_t column, int64_t width,
                             float *tile) {
  for (int64_t c = 0; c < width; ++c)
    for (int64_t r = 0; r < rows; ++r)
      withRows([&](auto a, auto b) HWY_ATTR { tile[r * panelWidth + c] = dotRow(a, b, w.columns); }, rowOf(x, row + r),
               rowOf(w, column + c));
}

// Of a weight in blocks: 32 numbers of it are expanded, and multiplied with every row of x.
inline void multiplyBlocksThin(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, int64_t column,
                               int64_t width, float *tile) {
  for (int64_t c = 0; c < width; ++c) {
    FloatVector sums[thinRows];
    for (int64_t r = 0; r < rows; ++r)
      sums[r] = hn::Zero(FloatTag());
    forEachPieceOf(w, column + c, [&](int64_t k, const float *piece) HWY_ATTR {
      for (int64_t r = 0; r < rows; ++r)
        withRows(
            [&](auto values) HWY_ATTR {
              for (int64_t i = 0; i < panelWidth; i += lanes)
                sums[r] = hn::MulAdd(hn::Load(FloatTag(), piece + i), loadSome(values + i, lanes), sums[r]);
            },
            rowOf(x, row + r) + k);
    });
    for (int64_t r = 0; r < rows; ++r)
      tile[r * panelWidth + c] = sumOf(sums[r]);
  }
}

// Of so many rows of x, of which a thread's workspace has room for.
template <typename Finish>
void multiplyThinRows(const Context &context, const Bf16Products *products, const Tensor &x, int64_t row, int64_t rows,
                      const Tensor &w, const LowRank &low, const Finish &finish) {
  const bool inBf16 = products && products->multiplyCodes && quantized(w);
  // Laid out once: beside what the first thread has of its own in its workspace.
  const ThinWorkspace shared(context.workspace, rows, w);
  if (inBf16)
    layOutHalves(x, row, rows, w, shared);
  else if (quantized(w))
    layOutCodes(x, row, rows, w, shared);
  // Handing work over takes as long as multiplying 32 thousand weights, and a task is long beside finding it.
  constexpr int64_t worthThreads = 1 << 16, ofTask = 1 << 14;
  const int64_t panels = ceilDivide(w.rows, panelWidth);
  const int64_t share = w.rows * w.columns < worthThreads ? panels : ceilDivide(ofTask, w.columns * panelWidth);
  parallelFor(context, ceilDivide(panels, share), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    ThinWorkspace thin(workspace, rows, w);
    thin.x = shared.x, thin.sums = shared.sums;
    HWY_ALIGN float tile[thinRows * panelWidth];
    for (int64_t panel = task * share; panel < std::min(panels, (task + 1) * share); ++panel) {
      const int64_t column = panel * panelWidth, width = std::min(panelWidth, w.rows - column);
      if (inBf16)
        products->multiplyCodes({w, rows, thin.groups, thin.halves(), thin.depth, thin.sums, thin.scales}, column,
                                width, tile);
      else if (quantized(w))
        multiplyCodeRows<thinRows>(rows, w, column, width, thin, tile);
      else if (isInBlocks(w))
        multiplyBlocksThin(x, row, rows, w, column, width, tile);
      else
        multiplyRowsThin(x, row, rows, w, column, width, tile);
      if (low.present()) {
        low.expand(column, thin.lowPanel);
        low.addTo(tile, row, rows, width, thin.lowPanel, thin.lowRoom);
      }
      finish(Products{row, rows, column, width, tile, true, true, nullptr});
    }
  });
}

// x[rows, depth] w[columns, depth]^T; `finish` as multiplyPanels has it, `products` as it has them for bf16. A row has
// the same bits whatever is beside it. False where the workspace is too small, or where panels are faster.
template <typename Finish>
bool multiplyThin(const Context &context, const Bf16Products *products, const Tensor &x, const Tensor &w,
                  const LowRank &low, const Finish &finish) {
  int64_t most = thinRows;
  while (most > 0 && !ThinWorkspace::fits(most, w))
    --most;
  const bool isSideBySide = context.sequence == 1; // else of one sequence, whose rows are to be as if they came alone
  if (most == 0 || (isSideBySide && x.rows > thinRows))
    return false;
  for (int64_t row = 0; row < x.rows; row += most)
    multiplyThinRows(context, products, x, row, std::min(most, x.rows - row), w, low, finish);
  return true;
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
