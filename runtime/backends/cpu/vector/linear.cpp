// SPDX-License-Identifier: Apache-2.0
//
// x, dx [N,K], w, dw [M,K], y, dy [N,M]. All three products are one loop over panels of 32 result columns: a block of
// the panel's depth is expanded into the thread's workspace, multiplied with all rows of the task, and added to the
// result. So a weight is never expanded as a whole, and blocks of the depth bound the rounding error. Factors are f32,
// or bf16 where the CPU multiplies that faster (products/).
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/linear.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/bf16_factors-inl.h"
#include "runtime/backends/cpu/vector/expand-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// The products of one block of the depth, for some rows and at most panelWidth columns of the result.
struct Products {
  int64_t row, rows, column, columns;
  const float *tile; // [rows, panelWidth]
  bool first, last;  // block of the depth
  float *sums;       // [rows, panelWidth], kept from the first block to the last
};

// Factors are what multiplyPanels multiplies: the left one, and how a tile of it meets a panel of the right one.
// In f32, whatever the storage.
struct FloatFactors {
  using Element = float;
  static constexpr int64_t tileRows = HWY_NAMESPACE::tileRows, depthBlock = 256;
  static constexpr bool wholeTiles = false;
  LeftMatrix matrix;

  void begin() const {}
  void end() const {}
  LeftOperand left(int64_t row, int64_t rows, int64_t k, int64_t count, float *room) const {
    return matrix.block(row, rows, k, count, room);
  }
  void multiply(int64_t rows, int64_t columns, int64_t count, const LeftOperand &left, const float *panel,
                float *tile) const {
    multiplyTile(rows, columns, count, left, panel, panelWidth, tile, panelWidth, false);
  }
};

// A product of low rank that is added to another's tiles, in f32: left [N,R], and right [M,R] to be transposed or
// [R,K].
class LowRank {
public:
  static constexpr int64_t panelFloats = maximumLowRank * panelWidth,
                           roomFloats = Bf16Products::maximumTileRows * maximumLowRank;

  LowRank() : left{absent} {}
  LowRank(const Tensor &left, const Tensor &right, bool transposed, float scale)
      : left{left}, right(&right), transposed(transposed), scale(scale) {}

  bool present() const { return left.tensor.present(); }
  int64_t rank() const { return left.tensor.columns; }

  void expand(int64_t column, float *panel) const {
    transposed ? expandTransposed(*right, column, 0, rank(), panel) : expandPanel(*right, 0, rank(), column, panel);
    for (int64_t i = 0; i < rank() * panelWidth; i += lanes)
      hn::StoreU(hn::Mul(hn::Set(FloatTag(), scale), hn::LoadU(FloatTag(), panel + i)), FloatTag(), panel + i);
  }
  void addTo(float *tile, int64_t row, int64_t rows, int64_t columns, const float *panel, float *room) const {
    multiplyTile(rows, columns, rank(), left.block(row, rows, 0, rank(), room), panel, panelWidth, tile, panelWidth,
                 true);
  }

private:
  static inline const Tensor absent;
  LeftMatrix left;
  const Tensor *right = nullptr;
  bool transposed = false;
  float scale = 1;
};

// How a product is cut. Shapes alone decide.
struct Blocking {
  int64_t depth;   // of a block, a multiple of panelWidth
  int64_t columns; // of a task: one panel, or more where they are so shallow that the workspace holds them together
  int64_t rows;    // of a task: many where there are columns enough to share out, so that a panel serves them all

  Blocking(int64_t allRows, int64_t allColumns, int64_t allDepth, int64_t depthBlock, bool onePanel) {
    depth = roundUp(ceilDivide(allDepth, std::max<int64_t>(1, ceilDivide(allDepth, depthBlock))));
    int64_t panels = onePanel ? 1 : std::max<int64_t>(1, depthBlock / std::max(roundUp(allDepth), panelWidth));
    columns = panels * panelWidth;
    rows = std::clamp<int64_t>(allRows, 1, ceilDivide(allColumns, columns) >= 8 ? taskRows : 96);
  }
  static constexpr int64_t taskRows = 512;
  static int64_t roundUp(int64_t value) { return ceilDivide(value, panelWidth) * panelWidth; }
};

// For each tile of left[rows, depth] panel[depth, columns], block by block of the depth:
//   expand(column, depth, count, panel) fills panel[count][panelWidth];
//   finish(products) adds them to the result, and with the first those of `low`.
template <typename Factors, typename Expand, typename Finish>
static void multiplyPanels(const Context &context, int64_t rows, int64_t columns, int64_t depth, const Factors &factors,
                           const LowRank &low, const Expand &expand, const Finish &finish) {
  using Element = typename Factors::Element;
  const int64_t tileRows = factors.tileRows, depthBlock = factors.depthBlock;
  const Blocking blocking(rows, columns, depth, depthBlock, low.present());
  int64_t columnTasks = ceilDivide(columns, blocking.columns);
  parallelFor(
      context, columnTasks * ceilDivide(rows, blocking.rows), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
        int64_t firstRow = task / columnTasks * blocking.rows, taskRows = std::min(rows - firstRow, blocking.rows);
        int64_t firstColumn = task % columnTasks * blocking.columns;
        int64_t lastColumn = std::min(columns, firstColumn + blocking.columns);
        auto *sums = reinterpret_cast<float *>(workspace), *tile = sums + Blocking::taskRows * panelWidth;
        float *lowPanel = tile + tileRows * panelWidth, *lowRoom = lowPanel + LowRank::panelFloats;
        auto *panels = reinterpret_cast<Element *>(lowRoom + LowRank::roomFloats);
        Element *room = panels + depthBlock * panelWidth; // tileRows * depthBlock of them
        if (low.present())
          low.expand(firstColumn, lowPanel);
        factors.begin();
        for (int64_t k = 0; k < depth; k += blocking.depth) {
          int64_t count = std::min(blocking.depth, depth - k);
          for (int64_t column = firstColumn; column < lastColumn; column += panelWidth)
            expand(column, k, count, panels + (column - firstColumn) * blocking.depth);
          forEachTile(taskRows, tileRows, factors.wholeTiles, [&](int64_t row, int64_t height) HWY_ATTR {
            auto left = factors.left(firstRow + row, height, k, count, room);
            for (int64_t column = firstColumn; column < lastColumn; column += panelWidth) {
              int64_t width = std::min(panelWidth, lastColumn - column);
              factors.multiply(height, width, count, left, panels + (column - firstColumn) * blocking.depth, tile);
              if (k == 0 && low.present())
                low.addTo(tile, firstRow + row, height, width, lowPanel, lowRoom);
              finish(Products{firstRow + row, height, column, width, tile, k == 0, k + count == depth,
                              sums + row * panelWidth});
            }
          });
        }
        factors.end();
      });
}

// left[rows, depth] w[columns, depth]^T for so few rows that transposing panels of w would cost more than the products:
// each row of w is expanded and multiplied where it lies. `finish` as above.
constexpr int64_t thinRows = 3;
template <typename Finish>
static void multiplyThin(const Context &context, const Tensor &x, const Tensor &w, const LowRank &low,
                         const Finish &finish) {
  parallelFor(context, ceilDivide(w.rows, panelWidth), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    int64_t column = task * panelWidth, width = std::min(panelWidth, w.rows - column);
    auto *weights = reinterpret_cast<float *>(workspace);
    HWY_ALIGN float tile[thinRows * panelWidth];
    for (int64_t c = 0; c < width; ++c) {
      expandRow(w, column + c, weights);
      for (int64_t r = 0; r < x.rows; ++r)
        withRows([&](auto from) HWY_ATTR { tile[r * panelWidth + c] = dotRow(from, weights, w.columns); }, rowOf(x, r));
    }
    if (low.present()) {
      low.expand(column, weights);
      low.addTo(tile, 0, x.rows, width, weights, weights + LowRank::panelFloats);
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

// Where no factor needs more than bf16, they are multiplied in it if this CPU is faster so.
static const Bf16Products *productsFor(const Tensor &left, const Tensor &w, bool narrow, const Context &context) {
  return (left.storage == Storage::BF16 || narrow) && w.storage != Storage::F32 ? context.bf16 : nullptr;
}

void Linear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2);
  const Tensor &addend = operandOf(call, 3), &y = call.results[0];
  const LowRank low(operandOf(call, 4), operandOf(call, 5), true, call.attributes.lowAlpha);
  auto finish = [&](const Products &products) HWY_ATTR {
    HWY_ALIGN float piece[panelWidth];
    if (bias.present())
      expandPanel(bias, 0, 1, products.column, piece);
    Accumulate{y, addend, bias.present() ? piece : nullptr, call.attributes.alpha}(products);
  };
  if (x.rows <= thinRows && (w.columns + w.group) * sizeof(float) <= workspaceBytes)
    return multiplyThin(context, x, w, low, finish);
  if (const Bf16Products *products = productsFor(x, w, false, context))
    return multiplyPanels(
        context, x.rows, w.rows, w.columns, Bf16Factors(*products, x), low,
        [&](int64_t column, int64_t depth, int64_t count, uint16_t *panel) {
          products->expandTransposed(w, column, depth, count, panel);
        },
        finish);
  multiplyPanels(
      context, x.rows, w.rows, w.columns, FloatFactors{{x}}, low,
      [&](int64_t column, int64_t depth, int64_t count, float *panel) HWY_ATTR {
        expandTransposed(w, column, depth, count, panel);
      },
      finish);
}

void LinearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1];
  const LowRank low(operandOf(call, 3), operandOf(call, 4), false, call.attributes.lowAlpha);
  Accumulate finish{call.results[0], operandOf(call, 2), nullptr, call.attributes.alpha};
  if (const Bf16Products *products = productsFor(dy, w, call.attributes.narrow, context))
    return multiplyPanels(
        context, dy.rows, w.columns, w.rows, Bf16Factors(*products, dy), low,
        [&](int64_t column, int64_t depth, int64_t count, uint16_t *panel) {
          products->expand(w, depth, count, column, panel);
        },
        finish);
  multiplyPanels(
      context, dy.rows, w.columns, w.rows, FloatFactors{{dy}}, low,
      [&](int64_t column, int64_t depth, int64_t count, float *panel) HWY_ATTR {
        expandPanel(w, depth, count, column, panel);
      },
      finish);
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
  FloatFactors left{{narrow, true}};
  if (transposed)
    multiplyPanels(context, dw.columns, dw.rows, dy.rows, left, LowRank(), expand, scatter);
  else
    multiplyPanels(context, dw.rows, dw.columns, dy.rows, left, LowRank(), expand,
                   Accumulate{dw, accumulates ? dw : operandOf(call, 2), nullptr, alpha});
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Linear);
HWY_EXPORT(LinearInputGradient);
HWY_EXPORT(LinearWeightGradient);

const KernelTable linearKernels = {{"linear", MEBP_BEST(Linear)},
                                   {"linear_input_gradient", MEBP_BEST(LinearInputGradient)},
                                   {"linear_weight_gradient", MEBP_BEST(LinearWeightGradient)}};

} // namespace mebp::cpu::vector
#endif
