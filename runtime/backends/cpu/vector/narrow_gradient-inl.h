// SPDX-License-Identifier: Apache-2.0
//
// Gradients of weights with few rows or columns, as LoRA's are. The wide factor meets so few rows of the other that a
// panel of it would cost a third of the product: it is multiplied from where it lies, a chain of its rows at a time.
#if defined(MEBP_NARROW_GRADIENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_NARROW_GRADIENT_INL_H
#undef MEBP_NARROW_GRADIENT_INL_H
#else
#define MEBP_NARROW_GRADIENT_INL_H
#endif

#include "runtime/backends/cpu/vector/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Some panels of a task's columns, with all rows and the whole depth.
template <typename Finish> class NarrowGradientTask {
public:
  NarrowGradientTask(const Tensor &narrow, const Tensor &wide, const Blocking &blocking, const Finish &finish,
                     int64_t firstPanel, int64_t panels, unsigned char *workspace)
      : narrow{narrow, true}, wide(wide), blocking(blocking), finish(finish), rows(narrow.columns),
        firstPanel(firstPanel), panels(panels), tiles(reinterpret_cast<float *>(workspace)),
        sums(tiles + panels * tileFloats()), panelRoom(sums + panels * tileFloats()),
        narrowRoom(panelRoom + chain * panelWidth) {}

  void run() const {
    for (int64_t k = 0; k < wide.rows; k += blocking.depth) {
      const int64_t count = std::min(blocking.depth, wide.rows - k);
      for (int64_t d = 0; d < count; d += chain)
        multiplyChain(k + d, std::min(chain, count - d), d > 0);
      forEachPanel([&](int64_t column, int64_t width, int64_t at) HWY_ATTR {
        finish(Products{0, rows, column, width, tiles + at, k == 0, k + count == wide.rows, sums + at});
      });
    }
  }

private:
  // Of all panels, so that a row of the wide factor is read on and on.
  void multiplyChain(int64_t k, int64_t count, bool adds) const {
    const LeftOperand left = narrow.block(0, rows, k, count, narrowRoom);
    forEachPanel([&](int64_t column, int64_t width, int64_t at) HWY_ATTR {
      auto multiply = [&](auto panel, int64_t stride) HWY_ATTR {
        multiplyTile(rows, width, count, left, panel, stride, tiles + at, panelWidth, adds);
      };
      const Row from = rowOf(wide, k) + column;
      if (width < panelWidth) { // beyond which nothing may be read
        expandPanel(wide, k, count, column, panelRoom);
        multiply(panelRoom, panelWidth);
      } else if (from.isBf16()) {
        multiply(from.halves(), wide.stride);
      } else {
        multiply(from.floats(), wide.stride);
      }
    });
  }
  // body(its first column, how many, where its tile is)
  template <typename Body> HWY_INLINE void forEachPanel(const Body &body) const {
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t column = (firstPanel + panel) * panelWidth;
      body(column, std::min(panelWidth, wide.columns - column), panel * tileFloats());
    }
  }
  int64_t tileFloats() const { return rows * panelWidth; }

  const LeftMatrix narrow;
  const Tensor &wide;
  const Blocking &blocking;
  const Finish &finish;
  const int64_t rows, firstPanel, panels;
  float *const tiles, *const sums, *const panelRoom, *const narrowRoom;
};

// For each tile of narrow[depth, rows]^T wide[depth, columns], block by block of the depth: finish(products). Blocks
// and chains are those of multiplyPanels with FloatFactors, and so are the bits.
template <typename Finish>
static void multiplyNarrowGradient(const Context &context, const Tensor &narrow, const Tensor &wide,
                                   const Finish &finish) {
  const Blocking blocking(narrow.columns, wide.columns, wide.rows, FloatFactors::depthBlock, threadsOf(context));
  auto run = [&](int64_t first, int64_t last, unsigned char *workspace) HWY_ATTR {
    NarrowGradientTask<Finish>(narrow, wide, blocking, finish, first, last - first, workspace).run();
  };
  parallelRuns(context, ceilDivide(wide.columns, panelWidth), blocking.columns / panelWidth, run);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
