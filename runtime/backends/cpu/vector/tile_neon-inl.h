// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel of tile-inl.h for NEON: A's elements come four to a load and are multiplied lane by lane. A load for
// each would leave half of the time to loads. Sums have the bits that they have with loads of single elements.
#if defined(MEBP_TILE_NEON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_TILE_NEON_INL_H
#undef MEBP_TILE_NEON_INL_H
#else
#define MEBP_TILE_NEON_INL_H
#endif

#include "runtime/backends/cpu/vector/simd-inl.h"

#include <algorithm>
#include <utility>

#include <arm_neon.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// sum + right left[lane]. Of the intrinsic g++ makes a vector of each lane first, and has no registers for so many.
template <int lane> HWY_INLINE float32x4_t addLane(float32x4_t sum, float32x4_t right, float32x4_t left) {
  asm("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum) : "w"(right), "w"(left), "i"(lane));
  return sum;
}

// One step of the depth: of each row of A the element in `lane`, and a row of B.
template <int lane, int Rows, int Vectors, typename Element>
HWY_INLINE void addStep(const float32x4_t (&left)[Rows], const Element *panel, float32x4_t (&sums)[Rows][Vectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) {
    const float32x4_t right = loadWide(panel + 4 * v).raw;
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r)
      sums[r][v] = addLane<lane>(sums[r][v], right, left[r]);
  }
}

// `count` < 4 floats, or 4, and nothing behind them.
template <int count> HWY_INLINE float32x4_t loadFloats(const float *from) {
  if constexpr (count >= 4)
    return vld1q_f32(from);
  else if constexpr (count == 3)
    return vld1q_lane_f32(from + 2, vcombine_f32(vld1_f32(from), vdup_n_f32(0)), 2);
  else if constexpr (count == 2)
    return vcombine_f32(vld1_f32(from), vdup_n_f32(0));
  else
    return vld1q_dup_f32(from);
}

// Adds the products of `depth` steps, where a row's elements lie side by side.
template <int Rows, int Vectors, typename Element>
HWY_INLINE void addStraight(int64_t depth, const float *left, int64_t rowStride, const Element *HWY_RESTRICT panel,
                            int64_t panelStride, float32x4_t (&sums)[Rows][Vectors]) {
  float32x4_t values[Rows];
  for (; depth >= 4; depth -= 4, left += 4, panel += 4 * panelStride) {
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r)
      values[r] = vld1q_f32(left + r * rowStride);
    addStep<0>(values, panel, sums);
    addStep<1>(values, panel + panelStride, sums);
    addStep<2>(values, panel + 2 * panelStride, sums);
    addStep<3>(values, panel + 3 * panelStride, sums);
  }
  for (; depth > 0; --depth, ++left, panel += panelStride) {
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r)
      values[r] = vld1q_dup_f32(left + r * rowStride);
    addStep<0>(values, panel, sums);
  }
}

// The same where the rows' elements of a step lie side by side.
template <int Vectors, typename Element, size_t... Rows>
HWY_INLINE void addTransposed(int64_t depth, const float *left, int64_t depthStride, const Element *HWY_RESTRICT panel,
                              int64_t panelStride, float32x4_t (&sums)[sizeof...(Rows)][Vectors],
                              std::index_sequence<Rows...>) {
  constexpr int rows = sizeof...(Rows);
  for (; depth > 0; --depth, left += depthStride, panel += panelStride) {
    float32x4_t values[2] = {loadFloats<rows>(left), {}};
    if constexpr (rows > 4)
      values[1] = loadFloats<rows - 4>(left + 4);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const float32x4_t right = loadWide(panel + 4 * v).raw;
      ((sums[Rows][v] = addLane<Rows % 4>(sums[Rows][v], right, values[Rows / 4])), ...);
    }
  }
}

// out[Rows, 4 Vectors] (+)= left panel, as multiplyRegisters has it. `leftStride` is that of the rows, or where these
// lie side by side that of the depth.
template <bool transposed, int Rows, int Vectors, int64_t chain, typename Element>
HWY_NOINLINE void multiplyLanes(int64_t depth, const float *left, int64_t leftStride, const Element *HWY_RESTRICT panel,
                                int64_t panelStride, float *HWY_RESTRICT out, int64_t outStride, bool accumulate) {
  static_assert(Rows <= 6 && Vectors <= 4, "all sums are in registers, beside A's elements and two vectors of B");
  do {
    float32x4_t sums[Rows][Vectors];
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        sums[r][v] = vdupq_n_f32(0);
    if constexpr (transposed)
      addTransposed(std::min(chain, depth), left, leftStride, panel, panelStride, sums,
                    std::make_index_sequence<Rows>());
    else
      addStraight(std::min(chain, depth), left, leftStride, panel, panelStride, sums);
    left += chain * (transposed ? leftStride : 1);
    panel += chain * panelStride;
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        float *to = out + r * outStride + 4 * v;
        vst1q_f32(to, accumulate ? vaddq_f32(vld1q_f32(to), sums[r][v]) : sums[r][v]);
      }
    accumulate = true;
    depth -= chain;
  } while (depth > 0);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
