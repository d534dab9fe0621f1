// SPDX-License-Identifier: Apache-2.0
//
// As avx512_bf16.cpp: weights are expanded 32 elements of a row at a time, but put together in four neighbours, of
// which BFMMLA multiplies those of two rows with those of two columns. That sums the products of each pair as BFDOT
// does.
#include "runtime/backends/cpu/products/neon_bf16.h"

#if defined(__aarch64__)

#include "format/blocks.h"

#include <algorithm>
#include <cstring>

#include <arm_neon.h>
#include <hwy/base.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
HWY_PUSH_ATTRIBUTES("arch=armv8.2-a+bf16")

namespace mebp::cpu::neon {

namespace {

constexpr int64_t width = Bf16Products::panelWidth, tileRows = 6, depthUnit = 4;

// 32 numbers of bf16.
struct Piece {
  uint16x8_t parts[4] = {};
};

inline uint16x8_t round(float32x4_t low, float32x4_t high) {
  return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
}

inline float32x4_t broadcastHalf(const uint16_t *half) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(half)));
}

// w[row][column + i], i < 32; zeros beyond the columns of what is not quantised.
class Rows {
public:
  Rows(const Tensor &w, int64_t column)
      : w(w), column(column), present(std::clamp<int64_t>(w.columns - column, 0, width)) {
    if (w.group > 0) {
      groups = w.stride / w.group;
      group = column / w.group;
    }
  }

  Piece operator()(int64_t row) const {
    switch (w.storage) {
    case Storage::F32:
      return rounded(w.f32() + row * w.stride + column);
    case Storage::BF16:
      return copied(static_cast<const uint16_t *>(w.data) + row * w.stride + column);
    case Storage::Int8:
      return dequantised(static_cast<const uint8_t *>(w.data) + row * w.stride + column, scale(row), minimum(row));
    case Storage::Int4:
      return looked(static_cast<const uint8_t *>(w.data) + (row * w.stride + column) / 2, scale(row), minimum(row));
    default:
      return ofBlocks(static_cast<const uint8_t *>(w.data) + row * format::bytesOf(w.storage, w.stride));
    }
  }

private:
  float32x4_t scale(int64_t row) const { return broadcastHalf(w.scales + row * groups + group); }
  float32x4_t minimum(int64_t row) const { return broadcastHalf(w.minima + row * groups + group); }

  Piece rounded(const float *from) const {
    float whole[width] = {};
    if (present < width)
      from = static_cast<const float *>(std::memcpy(whole, from, present * sizeof(float)));
    Piece piece;
    for (int i = 0; i < 4; ++i)
      piece.parts[i] = round(vld1q_f32(from + 8 * i), vld1q_f32(from + 8 * i + 4));
    return piece;
  }
  Piece copied(const uint16_t *from) const {
    uint16_t whole[width] = {};
    if (present < width)
      from = static_cast<const uint16_t *>(std::memcpy(whole, from, present * sizeof(uint16_t)));
    Piece piece;
    for (int i = 0; i < 4; ++i)
      piece.parts[i] = vld1q_u16(from + 8 * i);
    return piece;
  }
  static uint16x8_t dequantised(uint8x8_t codes, float32x4_t scale, float32x4_t minimum) {
    uint16x8_t wide = vmovl_u8(codes);
    return round(vfmaq_f32(minimum, vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), scale),
                 vfmaq_f32(minimum, vcvtq_f32_u32(vmovl_high_u16(wide)), scale));
  }
  static Piece dequantised(const uint8_t *codes, float32x4_t scale, float32x4_t minimum) {
    Piece piece;
    for (int i = 0; i < 4; ++i)
      piece.parts[i] = dequantised(vld1_u8(codes + 8 * i), scale, minimum);
    return piece;
  }
  // The sixteen values of the group, then the two bytes of the right one for each code.
  static Piece looked(const uint8_t *codes, float32x4_t scale, float32x4_t minimum) {
    const uint8x8_t first = vcreate_u8(0x0706050403020100), second = vcreate_u8(0x0F0E0D0C0B0A0908);
    const uint8x16x2_t values = {{vreinterpretq_u8_u16(dequantised(first, scale, minimum)),
                                  vreinterpretq_u8_u16(dequantised(second, scale, minimum))}};
    const uint8x16_t packed = vld1q_u8(codes), low = vandq_u8(packed, vdupq_n_u8(15)), high = vshrq_n_u8(packed, 4);
    Piece piece;
    for (int i = 0; i < 2; ++i) {
      uint8x16_t even = vshlq_n_u8(i == 0 ? vzip1q_u8(low, high) : vzip2q_u8(low, high), 1);
      uint8x16_t odd = vorrq_u8(even, vdupq_n_u8(1));
      piece.parts[2 * i] = vreinterpretq_u16_u8(vqtbl2q_u8(values, vzip1q_u8(even, odd)));
      piece.parts[2 * i + 1] = vreinterpretq_u16_u8(vqtbl2q_u8(values, vzip2q_u8(even, odd)));
    }
    return piece;
  }

  Piece ofBlocks(const uint8_t *row) const {
    float numbers[width];
    format::withBlocks(w.storage,
                       [&](auto storage) { format::expandPiece<storage.value>(row, column / width, numbers); });
    Piece piece;
    for (int i = 0; i < 4; ++i)
      piece.parts[i] = round(vld1q_f32(numbers + 8 * i), vld1q_f32(numbers + 8 * i + 4));
    return piece;
  }

  const Tensor &w;
  int64_t column, present, groups = 0, group = 0;
};

// Four neighbours j of row i go to out[j * width + i], i < 2.
inline void storeTransposed(const Piece (&rows)[2], uint64_t *out) {
  for (int part = 0; part < 4; ++part, out += 2 * width) {
    const auto first = vreinterpretq_u64_u16(rows[0].parts[part]), second = vreinterpretq_u64_u16(rows[1].parts[part]);
    vst1q_u64(out, vzip1q_u64(first, second));
    vst1q_u64(out + width, vzip2q_u64(first, second));
  }
}

inline float32x4_t lower(float32x4_t first, float32x4_t second) {
  return vreinterpretq_f32_u64(vzip1q_u64(vreinterpretq_u64_f32(first), vreinterpretq_u64_f32(second)));
}
inline float32x4_t upper(float32x4_t first, float32x4_t second) {
  return vreinterpretq_f32_u64(vzip2q_u64(vreinterpretq_u64_f32(first), vreinterpretq_u64_f32(second)));
}

// Sums of two rows and two columns for each of `Pairs` of rows and eight of columns.
template <int Pairs> using Sums = float32x4_t[Pairs][8];

template <int Rows> inline void loadSums(const float *from, int64_t stride, Sums<(Rows + 1) / 2> &sums) {
#pragma GCC unroll 6
  for (int r = 0; r < Rows; r += 2)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const float32x4_t first = vld1q_f32(from + r * stride + 4 * v);
      const float32x4_t second = r + 1 < Rows ? vld1q_f32(from + (r + 1) * stride + 4 * v) : vdupq_n_f32(0);
      sums[r / 2][2 * v] = lower(first, second), sums[r / 2][2 * v + 1] = upper(first, second);
    }
}
template <int Rows> inline void storeSums(const Sums<(Rows + 1) / 2> &sums, float *to, int64_t stride) {
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const float32x4_t first = sums[r / 2][2 * v], second = sums[r / 2][2 * v + 1];
      vst1q_f32(to + r * stride + 4 * v, r % 2 ? upper(first, second) : lower(first, second));
    }
}

inline bfloat16x8_t load(const uint16_t *from) { return vreinterpretq_bf16_u16(vld1q_u16(from)); }

// Four neighbours of the depth, for half of the columns.
template <int Pairs>
inline void multiplyFour(const uint64x2_t (&left)[Pairs], const uint16_t *panel, Sums<Pairs> &sums) {
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    asm volatile("" ::: "memory"); // else more vectors are loaded than the sums leave registers for
    const bfloat16x8_t right = load(panel + 8 * v);
#pragma GCC unroll 3
    for (int p = 0; p < Pairs; ++p)
      sums[p][v] = vbfmmlaq_f32(sums[p][v], vreinterpretq_bf16_u64(left[p]), right);
  }
}

template <int Rows>
__attribute__((noinline)) void multiplyRows(int64_t depth, const uint16_t *left, int64_t leftStride,
                                            const uint16_t *panel, float *out, int64_t outStride, bool adds) {
  constexpr int pairs = (Rows + 1) / 2;
  Sums<pairs> sums = {};
  if (adds)
    loadSums<Rows>(out, outStride, sums);
  for (int64_t d = 0; d < depth; d += depthUnit, panel += depthUnit * width) {
    uint64x2_t values[pairs];
#pragma GCC unroll 3
    for (int p = 0; p < pairs; ++p) {
      const uint16_t *from = left + 2 * p * leftStride + d;
      const uint64x1_t even = vreinterpret_u64_u16(vld1_u16(from));
      values[p] = vcombine_u64(even, 2 * p + 1 < Rows ? vreinterpret_u64_u16(vld1_u16(from + leftStride)) : even);
    }
    multiplyFour(values, panel, sums);
  }
  storeSums<Rows>(sums, out, outStride);
}

template <int Rows = tileRows>
void multiply(int64_t rows, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel, float *sums,
              int64_t sumsStride, bool adds) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return multiply<Rows - 1>(rows, depth, left, leftStride, panel, sums, sumsStride, adds);
  for (int64_t half = 0; half < width; half += width / 2)
    multiplyRows<Rows>(depth, left, leftStride, panel + depthUnit * half, sums + half, sumsStride, adds);
}

void nothing() {}

void expand(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel) {
  const Rows rows(w, column);
  for (int64_t d = 0; d < count; d += depthUnit, panel += depthUnit * width) {
    Piece pieces[depthUnit];
    for (int64_t i = 0; i < std::min(depthUnit, count - d); ++i)
      pieces[i] = rows(row + d + i);
    for (int i = 0; i < 4; ++i) {
      const uint16x8x4_t four = {{pieces[0].parts[i], pieces[1].parts[i], pieces[2].parts[i], pieces[3].parts[i]}};
      vst4q_u16(panel + 32 * i, four);
    }
  }
}

void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel) {
  for (int64_t d = 0; d < count; d += width, panel += width * width) {
    const Rows rows(w, column + d);
    for (int64_t c = 0; c < width; c += 2) {
      const Piece two[2] = {rows(std::min(row + c, w.rows - 1)), rows(std::min(row + c + 1, w.rows - 1))};
      storeTransposed(two, reinterpret_cast<uint64_t *>(panel) + c);
    }
  }
}

void round(const float *from, int64_t count, uint16_t *to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    vst1q_u16(to + i, round(vld1q_f32(from + i), vld1q_f32(from + i + 4)));
  if (i == count)
    return;
  float rest[8] = {};
  std::copy(from + i, from + count, rest);
  uint16_t rounded[8];
  vst1q_u16(rounded, round(vld1q_f32(rest), vld1q_f32(rest + 4)));
  std::copy_n(rounded, count - i, to + i);
}

} // namespace

const Bf16Products products = {tileRows, 512,        512,     depthUnit, false,   expand,  expandTransposed,
                               round,    multiply<>, nullptr, nothing,   nothing, nullptr, depthUnit};

} // namespace mebp::cpu::neon

HWY_POP_ATTRIBUTES

#endif
