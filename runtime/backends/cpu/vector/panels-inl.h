// SPDX-License-Identifier: Apache-2.0
//
// The loop under all matrix products: over panels of 32 result columns. A block of the depth of some panels is expanded
// into the thread's workspace, multiplied with all rows of the task, and added to the result. So a weight is never
// expanded as a whole, and blocks of the depth bound the rounding error. Factors are f32, or bf16 where the CPU
// multiplies that faster (products/).
#if defined(MEBP_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_PANELS_INL_H
#undef MEBP_PANELS_INL_H
#else
#define MEBP_PANELS_INL_H
#endif

#include "runtime/backends/cpu/vector/bf16_factors-inl.h"
#include "runtime/backends/cpu/vector/expand-inl.h"
#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/backends/cpu/vector/product_workspace.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// The products of one block of the depth, for some rows and at most panelWidth columns of the result.
struct Products {
  int64_t row, rows, column, columns;
  float *tile;      // [rows, panelWidth]
  bool first, last; // block of the depth
  float *sums;      // [rows, panelWidth], kept from the first block to the last
};

// Factors are what multiplyPanels multiplies: the left one, and how a tile of it meets a panel of the right one.
// In f32, whatever the storage.
struct FloatFactors {
  using Element = float;
  static constexpr bool keepsSums = false; // blocks bound the rounding error
  static constexpr int64_t tileRows = HWY_NAMESPACE::tileRows, depthBlock = 256, depthStep = depthBlock;
  static constexpr bool wholeTiles = false;
  LeftMatrix matrix;

  void begin() const {}
  void end() const {}
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

// How a product is cut. Only the depth rounds, and shapes alone decide on it.
struct Blocking {
  int64_t depth;                          // of a block, a multiple of panelWidth
  int64_t columns = panelWidth, rows = 1; // of a task

  // The cheapest shares for the thread that has most of them.
  Blocking(int64_t allRows, int64_t allColumns, int64_t allDepth, int64_t depthBlock, int64_t threads) {
    int64_t blocks = std::max<int64_t>(1, ceilDivide(allDepth, depthBlock));
    depth = std::max(roundUp(ceilDivide(allDepth, blocks)), panelWidth);
    int64_t least = INT64_MAX;
    for (int64_t panels = std::min(Workspace::mostPanels, roundUp(allColumns) / panelWidth); panels > 0; panels /= 2)
      for (int64_t share : {512, 256, 128, 64}) {
        if (panels * share > Workspace::mostSums && blocks > 1)
          continue;
        int64_t height = std::clamp<int64_t>(allRows, 1, share), width = panels * panelWidth;
        int64_t tasks = ceilDivide(allColumns, width) * ceilDivide(allRows, height);
        int64_t cost = ceilDivide(tasks, threads) * costOf(panels, height);
        if (cost < least)
          least = cost, columns = width, rows = height;
      }
  }

  static int64_t roundUp(int64_t value) { return ceilDivide(value, panelWidth) * panelWidth; }
  // Of a panel's sums, in whole tiles.
  int64_t rowsOfSums() const { return roundUp(rows); }

private:
  using Workspace = ProductWorkspace<float>;
  // Multiplying 16 rows with a panel costs 16. Expanding it costs as much as 24 of them, taking the left rows
  // themselves as one panel for each 16.
  static int64_t costOf(int64_t panels, int64_t rows) { return panels * (rows + 24) * 16 + rows; }
};

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

// The right factor: w or its transpose.
template <typename Expand> struct RightMatrix {
  const Tensor &w;
  bool transposed;
  Expand expand; // expand(column, depth, count, panel) fills panel[count][panelWidth]

  Prefetch prefetch(int64_t column, int64_t columns, int64_t depth, int64_t count, int64_t portions) const {
    return transposed ? Prefetch(w, column, columns, depth, count, portions)
                      : Prefetch(w, depth, count, column, columns, portions);
  }
};
template <typename Expand> RightMatrix(const Tensor &, bool, Expand) -> RightMatrix<Expand>;

// A product as multiplyPanels is called for it.
template <typename Factors, typename Right, typename Finish> struct PanelProduct {
  int64_t rows, columns, depth;
  const Factors &factors;
  const LowRank &low;
  const Right &right;
  const Finish &finish;
  const Blocking blocking;

  int64_t columnTasks() const { return ceilDivide(columns, blocking.columns); }
  int64_t tasks() const { return columnTasks() * ceilDivide(rows, blocking.rows); }
};

// Some rows and at most mostPanels panels of it, on one thread.
template <typename Product, typename Element> class PanelTask {
public:
  PanelTask(const Product &product, int64_t task, unsigned char *memory)
      : product(product), blocking(product.blocking), factors(product.factors), low(product.low),
        workspace(memory, factors.depthBlock), firstRow(task / product.columnTasks() * blocking.rows),
        rows(std::min(product.rows - firstRow, blocking.rows)),
        firstColumn(task % product.columnTasks() * blocking.columns),
        lastColumn(std::min(product.columns, firstColumn + blocking.columns)) {}

  void run() const {
    if (low.present())
      forEachPanel([&](int64_t panel, int64_t column) HWY_ATTR { low.expand(column, lowPanelOf(panel)); });
    factors.begin();
    for (int64_t k = 0; k < product.depth; k += blocking.depth)
      multiplyBlock(k, std::min(blocking.depth, product.depth - k));
    factors.end();
  }

private:
  // All rows with [k, k + count) of the depth. Meanwhile comes what is expanded next: by this task or the one after it.
  void multiplyBlock(int64_t k, int64_t count) const {
    const bool last = k + count == product.depth;
    forEachPanel([&](int64_t panel, int64_t column)
                     HWY_ATTR { product.right.expand(column, k, count, panelOf(panel)); });
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
template <typename Factors, typename Right, typename Finish>
static void multiplyPanels(const Context &context, int64_t rows, int64_t columns, int64_t depth, const Factors &factors,
                           const LowRank &low, const Right &right, const Finish &finish) {
  using Product = PanelProduct<Factors, Right, Finish>;
  const Product product{rows, columns, depth,  factors,
                        low,  right,   finish, Blocking(rows, columns, depth, factors.depthBlock, threadsOf(context))};
  parallelFor(context, product.tasks(), [&](int64_t task, unsigned char *memory) HWY_ATTR {
    PanelTask<Product, typename Factors::Element>(product, task, memory).run();
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
