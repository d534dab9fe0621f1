// SPDX-License-Identifier: Apache-2.0
//
// The loop under all matrix products: over panels of 32 result columns. A block of the depth of some panels is expanded
// into the thread's workspace, multiplied with all rows of the task, and added to the blocks before. So a weight is
// never expanded as a whole. In f32, a block is summed by itself as its chains are (tile-inl.h). Factors are f32, or
// bf16 where the CPU multiplies that faster (products/).
#if defined(MEBP_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_PANELS_INL_H
#undef MEBP_PANELS_INL_H
#else
#define MEBP_PANELS_INL_H
#endif

#include "runtime/backends/cpu/vector/bf16_factors-inl.h"
#include "runtime/backends/cpu/vector/blocking.h"
#include "runtime/backends/cpu/vector/fused_panels-inl.h"
#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/backends/cpu/vector/product_workspace.h"
#include "runtime/backends/cpu/vector/right_matrix-inl.h"

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// The products of one block of the depth, for some rows and at most panelWidth columns of the result.
struct Products {
  int64_t row, rows, column, columns;
  float *tile;      // [rows, panelWidth]
  bool first, last; // block of the depth
  float *sums;      // [rows, panelWidth], kept from the first block to the last
};

// Factors are what multiplyPanels multiplies: the left one, how panels of the right one lie, and how a tile meets a
// panel. In f32, whatever the storage.
struct FloatFactors {
  using Element = float;
  static constexpr bool keepsSums = false; // the fewer sums meet one after the other, the smaller is the rounding error
  // Some tiles of registers at once: their columns of a panel stay in the first cache. Whole ones, so that the tiles of
  // registers are as few as they can be.
  static constexpr int64_t tileRows = 24, depthBlock = 256, depthStep = depthBlock;
  static constexpr bool wholeTiles = true;
  static_assert(tileRows % registerRows == 0 && tileRows <= ProductWorkspace<float>::tileRows);
  LeftMatrix matrix;

  void begin() const {}
  void end() const {}
  void expand(const RightMatrix &right, int64_t column, int64_t k, int64_t count, float *panel) const {
    right.expand(column, k, count, panel);
  }
  LeftOperand left(int64_t row, int64_t rows, int64_t k, int64_t count, float *room) const {
    return matrix.block(row, rows, k, count, room);
  }
  void multiply(int64_t rows, int64_t columns, int64_t, int64_t count, const LeftOperand &left, const float *panel,
                float *sums, bool) const {
    multiplyTile(rows, columns, count, left, panel, panelWidth, sums, panelWidth, false);
  }
};

// A product of low rank that is added to another's tiles, in f32: left [N,R], and right [M,R] to be transposed or
// [R,K].
class LowRank {
public:
  static constexpr int64_t panelFloats = maximumLowRank * panelWidth;

  LowRank() : LowRank(absent, absent, false, 1) {}
  LowRank(const Tensor &left, const Tensor &right, bool transposed, float scale)
      : left{left}, right{right, transposed}, scale(scale) {}

  bool present() const { return left.tensor.present(); }
  int64_t rank() const { return left.tensor.columns; }

  void expand(int64_t column, float *panel) const {
    right.expand(column, 0, rank(), panel);
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
  RightMatrix right;
  float scale;
};

// A product as multiplyPanels is called for it.
template <typename Factors, typename Finish> struct PanelProduct {
  // In bf16, on CPUs that may have AMX: only its products have slots.
  static constexpr bool mayFuse = std::is_same_v<typename Factors::Element, uint16_t> && lanes == 16;
  int64_t rows, columns, depth;
  const Factors &factors;
  const LowRank &low;
  const RightMatrix &right;
  const Finish &finish;
  const Blocking blocking;

  // Panels are numbered row of tasks by row of tasks.
  int64_t panelsOfRow() const { return ceilDivide(columns, panelWidth); }
  int64_t panels() const { return panelsOfRow() * ceilDivide(rows, blocking.rows); }
};

// Some rows and at most mostPanels panels of it, on one thread.
template <typename Product, typename Element> class PanelTask {
public:
  PanelTask(const Product &product, int64_t firstPanel, int64_t panels, unsigned char *memory)
      : product(product), blocking(product.blocking), factors(product.factors), low(product.low),
        workspace(memory, factors.depthBlock), firstRow(firstPanel / product.panelsOfRow() * blocking.rows),
        rows(std::min(product.rows - firstRow, blocking.rows)),
        firstColumn(firstPanel % product.panelsOfRow() * panelWidth),
        lastColumn(std::min(product.columns, firstColumn + panels * panelWidth)) {}

  void run() const {
    if (low.present())
      forEachPanel([&](int64_t panel, int64_t column) HWY_ATTR { low.expand(column, lowPanelOf(panel)); });
    factors.begin();
    if (fused())
      runFused();
    else
      for (int64_t k = 0; k < product.depth; k += blocking.depth)
        multiplyBlock(k, std::min(blocking.depth, product.depth - k));
    factors.end();
  }

private:
  template <typename Task> friend class FusedTask;
  using Sums = Products;

  bool fused() const {
    if constexpr (Product::mayFuse)
      return factors.fused();
    return false;
  }
  void runFused() const {
    if constexpr (Product::mayFuse)
      FusedTask<PanelTask>(*this).run();
  }

  // All rows with [k, k + count) of the depth. Meanwhile comes what is expanded next: by this task or the one after it.
  void multiplyBlock(int64_t k, int64_t count) const {
    const bool last = k + count == product.depth;
    forEachPanel(
        [&](int64_t panel, int64_t column)
            HWY_ATTR { factors.expand(product.right, column, k, count, panelOf(panel)); });
    Prefetch next = product.right.prefetch(last ? lastColumn : firstColumn, blocking.columns, last ? 0 : k + count,
                                           blocking.depth, ceilDivide(rows, factors.tileRows));
    forEachTile(rows, factors.tileRows, factors.wholeTiles, [&](int64_t row, int64_t height) HWY_ATTR {
      next.portion();
      multiplyRows(row, height, k, count);
    });
  }

  // Of a tile of the left factor, a step of the depth meets all panels before the next does.
  HWY_INLINE void multiplyRows(int64_t row, int64_t height, int64_t k, int64_t count) const {
    const auto left = factors.left(firstRow + row, height, k, count, workspace.room);
    for (int64_t d = 0; d < count; d += factors.depthStep)
      forEachPanel([&](int64_t panel, int64_t column) HWY_ATTR {
        const int64_t width = std::min(panelWidth, lastColumn - column), n = std::min(factors.depthStep, count - d);
        float *tile = tileOf(panel, row);
        factors.multiply(height, width, d, n, left, panelOf(panel), tile, k > 0 || d > 0);
        if (d + n == count)
          finish(panel,
                 {firstRow + row, height, column, width, tile, k == 0, k + count == product.depth, sumsOf(panel, row)});
      });
  }

  HWY_INLINE void finish(int64_t panel, Products products) const {
    if (products.first && low.present())
      low.addTo(products.tile, products.row, products.rows, products.columns, lowPanelOf(panel), workspace.lowRoom);
    if (factors.keepsSums && !products.last)
      return;
    products.first |= factors.keepsSums;
    product.finish(products);
  }

  template <typename Body> HWY_INLINE void forEachPanel(const Body &body) const {
    for (int64_t panel = 0, column = firstColumn; column < lastColumn; ++panel, column += panelWidth)
      body(panel, column);
  }
  Element *panelOf(int64_t panel) const { return workspace.panels + panel * blocking.depth * panelWidth; }
  float *lowPanelOf(int64_t panel) const { return workspace.lowPanels + panel * LowRank::panelFloats; }
  float *sumsOf(int64_t panel, int64_t row) const {
    return workspace.sums + (panel * blocking.rowsOfSums() + row) * panelWidth;
  }
  // Where products of one block are, or those of all blocks so far.
  float *tileOf(int64_t panel, int64_t row) const {
    bool grows = factors.keepsSums && blocking.depth < product.depth;
    return grows ? sumsOf(panel, row) : workspace.tiles + panel * workspace.tileRows * panelWidth;
  }

  const Product &product;
  const Blocking &blocking;
  const decltype(Product::factors) factors;
  const LowRank &low;
  const ProductWorkspace<Element> workspace;
  const int64_t firstRow, rows, firstColumn, lastColumn;
};

// For each tile of left[rows, depth] right[depth, columns], block by block of the depth, finish(products) adds it to
// the result, and with the first that of `low`.
template <typename Factors, typename Finish>
static void multiplyPanels(const Context &context, int64_t rows, const Factors &factors, const RightMatrix &right,
                           const LowRank &low, const Finish &finish) {
  using Product = PanelProduct<Factors, Finish>;
  const int64_t columns = right.columns(), depth = right.depth();
  const Product product{rows, columns, depth,  factors,
                        low,  right,   finish, Blocking(rows, columns, depth, factors.depthBlock, threadsOf(context))};
  auto run = [&](int64_t first, int64_t last, unsigned char *memory) HWY_ATTR {
    for (int64_t end; first < last; first = end) {
      end = std::min(last, (first / product.panelsOfRow() + 1) * product.panelsOfRow());
      PanelTask<Product, typename Factors::Element>(product, first, end - first, memory).run();
    }
  };
  parallelRuns(context, product.panels(), product.blocking.columns / panelWidth, run);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
