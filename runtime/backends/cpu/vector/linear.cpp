// SPDX-License-Identifier: Apache-2.0
//
// x, dx [N,K], w, dw [M,K], y, dy [N,M]. All three products are one loop over panels of 32 result columns: a block of
// the panel's depth is expanded into the thread's workspace, multiplied with all rows of the task, and added to the
// result. So a weight is never expanded as a whole, and blocks of the depth bound the rounding error.
#include "runtime/backends/cpu/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/linear.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/expand-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t depthBlock = 256;

// How a product is cut. Shapes alone decide.
struct Blocking {
  int64_t depth;   // of a block, a multiple of panelWidth
  int64_t columns; // of a task: one panel, or more where they are so shallow that the workspace holds them together
  int64_t rows;    // of a task: many where there are columns enough to share out, so that a panel serves them all

  Blocking(int64_t allRows, int64_t allColumns, int64_t allDepth) {
    depth = roundUp(ceilDivide(allDepth, std::max<int64_t>(1, ceilDivide(allDepth, depthBlock))));
    columns = std::max<int64_t>(1, depthBlock / std::max(roundUp(allDepth), panelWidth)) * panelWidth;
    rows = std::clamp<int64_t>(allRows, 1, ceilDivide(allColumns, columns) >= 8 ? 512 : 96);
  }
  static int64_t roundUp(int64_t value) { return ceilDivide(value, panelWidth) * panelWidth; }
};

// The products of one block of the depth, for some rows and at most panelWidth columns of the result.
struct Products {
  int64_t row, rows, column, columns;
  const float *tile; // [rows, panelWidth]
  bool first, last;  // block of the depth
  float *sums;       // [rows, panelWidth], kept from the first block to the last
};

// For each tile of left[rows, depth] panel[depth, columns], block by block of the depth:
//   expand(column, depth, count, panel) fills panel[count][panelWidth];
//   finish(products) adds them to the result.
template <typename Expand, typename Finish>
static void multiplyPanels(const Context &context, int64_t rows, int64_t columns, int64_t depth, LeftMatrix left,
                           const Expand &expand, const Finish &finish) {
  const Blocking blocking(rows, columns, depth);
  int64_t columnTasks = ceilDivide(columns, blocking.columns);
  parallelFor(
      context, columnTasks * ceilDivide(rows, blocking.rows), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
        int64_t firstRow = task / columnTasks * blocking.rows, taskRows = std::min(rows - firstRow, blocking.rows);
        int64_t firstColumn = task % columnTasks * blocking.columns;
        int64_t lastColumn = std::min(columns, firstColumn + blocking.columns);
        auto *panels = reinterpret_cast<float *>(workspace), *tile = panels + depthBlock * panelWidth;
        float *leftRoom = tile + tileRows * panelWidth, *sums = leftRoom + depthBlock * panelWidth;
        for (int64_t k = 0; k < depth; k += blocking.depth) {
          int64_t count = std::min(blocking.depth, depth - k), tiles = ceilDivide(taskRows, tileRows);
          for (int64_t column = firstColumn; column < lastColumn; column += panelWidth)
            expand(column, k, count, panels + (column - firstColumn) * blocking.depth);
          for (int64_t t = 0; t < tiles; ++t) {
            int64_t row = taskRows * t / tiles, height = taskRows * (t + 1) / tiles - row;
            LeftOperand block = left.block(firstRow + row, height, k, count, leftRoom);
            for (int64_t column = firstColumn; column < lastColumn; column += panelWidth) {
              int64_t width = std::min(panelWidth, lastColumn - column);
              multiplyTile(height, width, count, block, panels + (column - firstColumn) * blocking.depth, panelWidth,
                           tile, panelWidth, false);
              finish(Products{firstRow + row, height, column, width, tile, k == 0, k + count == depth,
                              sums + row * panelWidth});
            }
          }
        }
      });
}

// left[rows, depth] w[columns, depth]^T for so few rows that transposing panels of w would cost more than the products:
// each row of w is expanded and multiplied where it lies. `finish` as above.
constexpr int64_t thinRows = 3;
template <typename Finish>
static void multiplyThin(const Context &context, const Tensor &x, const Tensor &w, const Finish &finish) {
  parallelFor(context, ceilDivide(w.rows, panelWidth), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    int64_t column = task * panelWidth, width = std::min(panelWidth, w.rows - column);
    auto *weights = reinterpret_cast<float *>(workspace);
    HWY_ALIGN float tile[thinRows * panelWidth];
    for (int64_t c = 0; c < width; ++c) {
      expandRow(w, column + c, weights);
      for (int64_t r = 0; r < x.rows; ++r)
        withRows([&](auto from) HWY_ATTR { tile[r * panelWidth + c] = dotRow(from, weights, w.columns); }, rowOf(x, r));
    }
    finish(Products{0, x.rows, column, width, tile, true, true, nullptr});
  });
}

// out = (first ? initial : out) + alpha * tile, where the initial value is the sum of those present of bias and addend.
// Until the last block, a result in BF16 grows in f32 elsewhere, to be rounded once.
struct Accumulate {
  const Tensor &out, &addend;
  const float *bias; // of the task's first column; may be null
  float alpha;

  void operator()(const Products &products) const {
    const FloatTag d;
    const FloatVector factor = hn::Set(d, alpha);
    const float *shift = products.first ? bias : nullptr;
    bool adds = !products.first || addend.present();
    Row to = rowOf(out, products.row) + products.column, from = to;
    int64_t toStride = out.stride, fromStride = toStride;
    if (products.first && adds)
      from = rowOf(addend, products.row) + products.column, fromStride = addend.stride;
    else if (!products.first && to.isBf16())
      from = Row(products.sums), fromStride = panelWidth;
    if (!products.last && to.isBf16())
      to = Row(products.sums), toStride = panelWidth;
    auto body = [&](auto before, auto after) HWY_ATTR {
      for (int64_t r = 0; r < products.rows; ++r)
        mapRow(after + r * toStride, products.columns, [&](int64_t c, int64_t n) HWY_ATTR {
          FloatVector initial = adds ? loadSome(before + r * fromStride + c, n) : hn::Zero(d);
          if (shift)
            initial = hn::Add(initial, loadSome(shift + c, n));
          return hn::MulAdd(factor, hn::LoadU(d, products.tile + r * panelWidth + c), initial);
        });
    };
    withRows(body, from, to);
  }
};

void Linear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2);
  const Tensor &addend = operandOf(call, 3), &y = call.results[0];
  auto finish = [&](const Products &products) HWY_ATTR {
    HWY_ALIGN float piece[panelWidth];
    if (bias.present())
      expandPanel(bias, 0, 1, products.column, piece);
    Accumulate{y, addend, bias.present() ? piece : nullptr, call.attributes.alpha}(products);
  };
  if (x.rows <= thinRows && (w.columns + w.group) * sizeof(float) <= workspaceBytes)
    return multiplyThin(context, x, w, finish);
  multiplyPanels(
      context, x.rows, w.rows, w.columns, {x},
      [&](int64_t column, int64_t depth, int64_t count, float *panel) HWY_ATTR {
        expandTransposed(w, column, depth, count, panel);
      },
      finish);
}

void LinearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1];
  multiplyPanels(
      context, dy.rows, w.columns, w.rows, {dy},
      [&](int64_t column, int64_t depth, int64_t count, float *panel) HWY_ATTR {
        expandPanel(w, depth, count, column, panel);
      },
      Accumulate{call.results[0], operandOf(call, 2), nullptr, call.attributes.alpha});
}

// The wider side of dw lies along the panels: dw = alpha dy^T x, or its transpose x^T dy.
void LinearWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &dw = call.results[0];
  bool transposed = dw.rows > dw.columns;
  const Tensor &narrow = transposed ? x : dy, &wide = transposed ? dy : x;
  bool accumulates = operandOf(call, 2).present();
  float alpha = call.attributes.alpha;
  auto scatter = [&](const Products &products) HWY_ATTR {
    for (int64_t c = 0; c < products.columns; ++c)
      for (int64_t r = 0; r < products.rows; ++r) {
        float *to = floatRowOf(dw, products.column + c) + products.row + r;
        *to = (products.first && !accumulates ? 0.0f : *to) + alpha * products.tile[r * panelWidth + c];
      }
  };
  auto expand = [&](int64_t column, int64_t depth, int64_t count, float *panel) HWY_ATTR {
    expandPanel(wide, depth, count, column, panel);
  };
  LeftMatrix left{narrow, true};
  if (transposed)
    multiplyPanels(context, dw.columns, dw.rows, dy.rows, left, expand, scatter);
  else
    multiplyPanels(context, dw.rows, dw.columns, dy.rows, left, expand,
                   Accumulate{dw, accumulates ? dw : operandOf(call, 2), nullptr, alpha});
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Linear);
HWY_EXPORT(LinearInputGradient);
HWY_EXPORT(LinearWeightGradient);

void linear(const Call &call, const Context &context) { HWY_DYNAMIC_DISPATCH(Linear)(call, context); }
void linearInputGradient(const Call &call, const Context &context) {
  HWY_DYNAMIC_DISPATCH(LinearInputGradient)(call, context);
}
void linearWeightGradient(const Call &call, const Context &context) {
  HWY_DYNAMIC_DISPATCH(LinearWeightGradient)(call, context);
}
} // namespace mebp::cpu::vector
#endif
