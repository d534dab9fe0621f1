// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/back_projection.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/back_projection.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of Rows rows and Vectors vectors: its sums stay in registers.
template <uint64_t Rows, uint64_t Vectors>
HWY_INLINE void projectTile(const float *HWY_RESTRICT left, const float *HWY_RESTRICT right, uint64_t stride,
                            uint64_t inner, uint64_t columns, float scale, float *HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[Rows][Vectors];
  for (auto &row : sums)
    for (auto &sum : row)
      sum = hn::Zero(d);
  for (uint64_t k = 0; k < inner; ++k)
    for (uint64_t vector = 0; vector < Vectors; ++vector) {
      const auto factor = hn::LoadU(d, right + k * stride + vector * lanes);
      for (uint64_t row = 0; row < Rows; ++row)
        sums[row][vector] = hn::MulAdd(hn::Set(d, left[row * inner + k]), factor, sums[row][vector]);
    }
  for (uint64_t row = 0; row < Rows; ++row)
    for (uint64_t vector = 0; vector < Vectors; ++vector)
      hn::StoreU(hn::Mul(sums[row][vector], hn::Set(d, scale)), d, out + row * columns + vector * lanes);
}

// The last columns, fewer than a vector.
void projectColumn(const float *HWY_RESTRICT left, const float *HWY_RESTRICT right, uint64_t stride, uint64_t inner,
                   float scale, float *HWY_RESTRICT out) {
  const hn::CappedTag<float, 1> d;
  auto sum = hn::Zero(d);
  for (uint64_t k = 0; k < inner; ++k)
    sum = hn::MulAdd(hn::Set(d, left[k]), hn::Set(d, right[k * stride]), sum);
  hn::StoreU(hn::Mul(sum, hn::Set(d, scale)), d, out);
}

template <uint64_t Rows>
void projectRows(const float *left, const float *right, uint64_t stride, uint64_t inner, uint64_t columns, float scale,
                 float *out) {
  const uint64_t lanes = hn::Lanes(hn::ScalableTag<float>());
  uint64_t column = 0;
  for (; column + 4 * lanes <= columns; column += 4 * lanes)
    projectTile<Rows, 4>(left, right + column, stride, inner, columns, scale, out + column);
  for (; column + lanes <= columns; column += lanes)
    projectTile<Rows, 1>(left, right + column, stride, inner, columns, scale, out + column);
  for (; column < columns; ++column)
    for (uint64_t row = 0; row < Rows; ++row)
      projectColumn(left + row * inner, right + column, stride, inner, scale, out + row * columns + column);
}

void ProjectBack(const float *left, const float *right, uint64_t stride, uint64_t rows, uint64_t inner,
                 uint64_t columns, float scale, float *out) {
  uint64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    projectRows<4>(left + row * inner, right, stride, inner, columns, scale, out + row * columns);
  for (; row < rows; ++row)
    projectRows<1>(left + row * inner, right, stride, inner, columns, scale, out + row * columns);
}

} // namespace mebp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp {
HWY_EXPORT(ProjectBack);

void projectBack(const float *left, const float *right, uint64_t stride, uint64_t rows, uint64_t inner,
                 uint64_t columns, float scale, float *out) {
  HWY_DYNAMIC_DISPATCH(ProjectBack)(left, right, stride, rows, inner, columns, scale, out);
}

} // namespace mebp
#endif
