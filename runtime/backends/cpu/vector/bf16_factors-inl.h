// SPDX-License-Identifier: Apache-2.0
//
// The factors of products in bf16 (products/): the left one where it lies, if a family can take it there, or copied.
#if defined(MEBP_BF16_FACTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_BF16_FACTORS_INL_H
#undef MEBP_BF16_FACTORS_INL_H
#else
#define MEBP_BF16_FACTORS_INL_H
#endif

#include "runtime/backends/cpu/kernel/row.h"
#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/backends/cpu/vector/right_matrix-inl.h"
#include "runtime/backends/cpu/vector/tile-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

static_assert(Bf16Products::panelWidth == panelWidth);

// Some of a row, with zeros behind it up to `stride`.
inline void copyInBf16(const Bf16Products &products, Row from, int64_t count, int64_t stride, uint16_t *to) {
  if (from.isBf16())
    std::copy_n(from.halves(), count, to);
  else
    products.round(from.floats(), count, to);
  std::fill(to + count, to + stride, uint16_t(0));
}

// A matrix whose blocks are left factors in bf16, as they lie there or rounded to it.
class Bf16Factors {
public:
  using Element = uint16_t;
  static constexpr bool keepsSums = true;
  struct Left {
    const uint16_t *data;
    int64_t stride;
  };
  const int64_t tileRows, depthBlock, depthStep;
  const bool wholeTiles;

  Bf16Factors(const Bf16Products &products, const Tensor &matrix)
      : tileRows(products.tileRows), depthBlock(products.depthBlock), depthStep(products.depthStep),
        wholeTiles(products.wholeTiles), products(products), matrix(matrix) {}

  void begin() const { products.begin(); }
  void end() const { products.end(); }
  void expand(const RightMatrix &right, int64_t column, int64_t k, int64_t count, uint16_t *panel) const {
    right.transposed ? products.expandTransposed(right.w, column, k, count, panel)
                     : products.expand(right.w, k, count, column, panel);
  }
  Left left(int64_t row, int64_t rows, int64_t k, int64_t count, uint16_t *room) const {
    Row from = rowOf(matrix, row) + k;
    bool whole = count % products.depthUnit == 0 && (rows == tileRows || !wholeTiles);
    if (from.isBf16() && whole)
      return {from.halves(), matrix.stride};
    int64_t stride = products.wholeUnits(count);
    for (int64_t r = 0; r < rows; ++r)
      copyInBf16(products, from + r * matrix.stride, count, stride, room + r * stride);
    return {room, stride};
  }
  void multiply(int64_t rows, int64_t, int64_t d, int64_t count, const Left &left, const uint16_t *panel, float *sums,
                bool adds) const {
    products.multiply(rows, products.wholeUnits(count), left.data + d, left.stride, panel + d * panelWidth, sums,
                      panelWidth, adds);
  }
  // Null where products are no faster with work in their slots.
  const FusedProducts *fused() const { return products.fused; }
  int64_t unitsOf(int64_t count) const { return products.wholeUnits(count) / products.depthUnit; }
  void multiplyFused(const FusedProducts &fused, int64_t count, const Left &left, const uint16_t *panel, float *sums,
                     bool adds, SlotWork &work) const {
    fused.multiply(products.wholeUnits(count), left.data, left.stride, panel, sums, panelWidth, adds, work);
  }

private:
  const Bf16Products &products;
  const Tensor &matrix;
};

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
