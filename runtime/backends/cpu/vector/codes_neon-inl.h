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

#include "runtime/backends/cpu/vector/simd-inl.h"

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

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
