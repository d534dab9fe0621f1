// SPDX-License-Identifier: Apache-2.0
//
// Codes of quantised weights as floats, for NEON: by tables and interleaving, which every vector pipe does. Conversions
// and widening shifts have half of the pipes, and twice the time.
#if defined(MEBP_CODES_NEON_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_CODES_NEON_INL_H
#undef MEBP_CODES_NEON_INL_H
#else
#define MEBP_CODES_NEON_INL_H
#endif

#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/vector/simd-inl.h"
#include "runtime/backends/cpu/vector/tile-inl.h"

#include <arm_neon.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// Sixteen numbers of four bits, each in a byte. Their floats have zeros in the lower half, and bytes of two tables
// above.
HWY_INLINE void widenNibbles(uint8x16_t nibbles, float32x4_t (&values)[4]) {
  const uint8x16_t lowBytes = {0x00, 0x80, 0x00, 0x40, 0x80, 0xA0, 0xC0, 0xE0,
                               0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70};
  const uint8x16_t highBytes = {0x00, 0x3F, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
                                0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41};
  const uint8x16_t low = vqtbl1q_u8(lowBytes, nibbles), high = vqtbl1q_u8(highBytes, nibbles);
  const uint16x8_t halves[2] = {vreinterpretq_u16_u8(vzip1q_u8(low, high)), vreinterpretq_u16_u8(vzip2q_u8(low, high))};
  const uint16x8_t zero = vdupq_n_u16(0);
  for (int i = 0; i < 2; ++i) {
    values[2 * i] = vreinterpretq_f32_u16(vzip1q_u16(zero, halves[i]));
    values[2 * i + 1] = vreinterpretq_f32_u16(vzip2q_u16(zero, halves[i]));
  }
}

// Sixteen bytes: each is the last byte of the float 2^23 + byte.
HWY_INLINE void widenBytes(uint8x16_t bytes, float32x4_t (&values)[4]) {
  const float32x4_t base = vdupq_n_f32(0x1p23f);
  const uint16x8_t above = vdupq_n_u16(0x4B00);
  const uint8x16_t zero = vdupq_n_u8(0);
  const uint16x8_t halves[2] = {vreinterpretq_u16_u8(vzip1q_u8(bytes, zero)),
                                vreinterpretq_u16_u8(vzip2q_u8(bytes, zero))};
  for (int i = 0; i < 2; ++i) {
    values[2 * i] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(halves[i], above)), base);
    values[2 * i + 1] = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(halves[i], above)), base);
  }
}

// The codes of a piece of 32, in the order in which they come out of their bytes: 16 of `first`, 16 of `second`.
template <bool fourBits>
HWY_INLINE void widenCodes(const uint8_t *codes, float32x4_t (&first)[4], float32x4_t (&second)[4]) {
  const uint8x16_t bytes = vld1q_u8(codes);
  if constexpr (fourBits) {
    widenNibbles(vandq_u8(bytes, vdupq_n_u8(15)), first);
    widenNibbles(vshrq_n_u8(bytes, 4), second);
  } else {
    widenBytes(bytes, first);
    widenBytes(vld1q_u8(codes + 16), second);
  }
}

// `parts` codes of a row lie in each of `width` lanes: of four bits the two of a byte.
template <bool fourBits> struct CodeOrder {
  static constexpr int bits = fourBits ? 4 : 8, parts = fourBits ? 2 : 1;
  static constexpr int64_t width = panelWidth / parts;
  static constexpr float scaleOf(int) { return 1.0f; }
};

// Rows of the weight that meet so many rows of x together: the codes of a row take eight of 32 registers.
constexpr int codeRowsAtOnce(int rows) { return 4 / (rows == 3 ? 2 : rows); }

// sums[w][r] += scales[w] (x_r codes[w]), of the next group. Scales of rows are scaleStride apart, rows of x xStride.
template <int Rows, int Width, bool fourBits, bool whole>
HWY_INLINE void addCodes(const uint8_t *(&codes)[Width], const float *x, int64_t xStride, const float *scales,
                         int64_t scaleStride, int64_t, FloatVector (&sums)[Width][Rows]) {
  static_assert(CodeOrder<fourBits>::parts * CodeOrder<fourBits>::width == panelWidth);
  constexpr int64_t half = panelWidth / 2;
  const FloatTag d;
#pragma GCC unroll 4
  for (int w = 0; w < Width; ++w) {
    __builtin_prefetch(codes[w] + CodeFactors::ahead, 0, 3);
    float32x4_t first[4], second[4];
    widenCodes<fourBits>(codes[w], first, second);
    codes[w] += panelWidth * CodeOrder<fourBits>::bits / 8;
    FloatVector products[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      products[r] = hn::Zero(d);
#pragma GCC unroll 4
    for (int64_t i = 0; i < half; i += lanes)
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const float *from = x + r * xStride + i;
        products[r] = hn::MulAdd(FloatVector(first[i / lanes]), hn::LoadU(d, from), products[r]);
        products[r] = hn::MulAdd(FloatVector(second[i / lanes]), hn::LoadU(d, from + half), products[r]);
      }
    const FloatVector scale = hn::Set(d, scales[w * scaleStride]);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      sums[w][r] = hn::MulAdd(scale, products[r], sums[w][r]);
  }
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
