// SPDX-License-Identifier: Apache-2.0
//
// Every storage of weights is expanded 32 elements of a row at a time; panels differ only in how such rows are put
// together: neighbours interleaved, or 16 x 16 pairs transposed. Included after all other headers.
#pragma once

#include "runtime/backends/cpu/products/avx512_blocks-inl.h"
#include "runtime/backends/cpu/products/bf16_products.h"

#include <algorithm>
#include <type_traits>

#include <hwy/base.h>
#include <immintrin.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

constexpr int64_t width = Bf16Products::panelWidth;

inline __m512i widenBytes(const uint8_t *from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

inline __m512 dequantize(const uint8_t *codes, float scale, float minimum) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(widenBytes(codes)), _mm512_set1_ps(scale), _mm512_set1_ps(minimum));
}

// 32 elements each of two rows of w, from `column` on. Of quantised ones, those at `scales` and `minima` are the first
// row's, the next the second's; of others, `present` says which elements there are.
template <Storage storage>
inline TwoRows load(const uint8_t *first, const uint8_t *second, int64_t column, const float *scales,
                    const float *minima, __mmask32 present) {
  if constexpr (format::isInBlocks(storage))
    return roundPieces<storage>(first, second, column);
  first += format::bytesOf(storage, column), second += format::bytesOf(storage, column);
  if constexpr (storage == Storage::Int4) {
    // All sixteen values of both groups are one table. A look-up takes five bits: a code, and whose.
    const __m512 all = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i whose = _mm512_set1_epi16(16);
    __m512i table = round(_mm512_fmadd_ps(all, _mm512_set1_ps(scales[0]), _mm512_set1_ps(minima[0])),
                          _mm512_fmadd_ps(all, _mm512_set1_ps(scales[1]), _mm512_set1_ps(minima[1])));
    __m512i pairs = widenBytes(first), nextPairs = widenBytes(second);
    constexpr int eitherButNotThird = 0x54, anyOfThree = 0xFE;
    pairs = _mm512_ternarylogic_epi32(pairs, _mm512_slli_epi32(pairs, 12), whose, eitherButNotThird);
    nextPairs = _mm512_ternarylogic_epi32(nextPairs, _mm512_slli_epi32(nextPairs, 12), whose, anyOfThree);
    return {_mm512_permutexvar_epi16(pairs, table), _mm512_permutexvar_epi16(nextPairs, table)};
  } else if constexpr (storage == Storage::Int8) {
    return {round(dequantize(first, scales[0], minima[0]), dequantize(first + 16, scales[0], minima[0])),
            round(dequantize(second, scales[1], minima[1]), dequantize(second + 16, scales[1], minima[1]))};
  } else {
    auto row = [&](const uint8_t *elements) {
      if constexpr (storage == Storage::BF16)
        return _mm512_maskz_loadu_epi16(present, elements);
      return round(_mm512_maskz_loadu_ps(static_cast<__mmask16>(present), elements),
                   _mm512_maskz_loadu_ps(static_cast<__mmask16>(present >> 16), elements + 64));
    };
    return {row(first), row(second)};
  }
}

inline __mmask32 presentOf(const Tensor &w, int64_t column) {
  return static_cast<__mmask32>((uint64_t(1) << std::clamp<int64_t>(w.columns - column, 0, width)) - 1);
}

template <Storage storage> const uint8_t *rowOf(const Tensor &w, int64_t row) {
  return static_cast<const uint8_t *>(w.data) + format::bytesOf(storage, row * w.stride);
}

// Calls body(its storage), so that what follows asks for it once.
template <typename Body> void withStorage(const Tensor &w, const Body &body) {
  switch (w.storage) {
  case Storage::F32:
    return body(std::integral_constant<Storage, Storage::F32>());
  case Storage::BF16:
    return body(std::integral_constant<Storage, Storage::BF16>());
  case Storage::Int8:
    return body(std::integral_constant<Storage, Storage::Int8>());
  case Storage::Int4:
    return body(std::integral_constant<Storage, Storage::Int4>());
  default:
    return format::withBlocks(w.storage, body);
  }
}

// Pair j of row i goes to out[j * width + i]. First among the four quarters of each register, then among registers.
inline void storeTransposed(const __m512i (&rows)[16], uint32_t *out) {
  __m512i quarters[4][4]; // [i][j]: in quarter q, pair 4 q + j of rows 4 i to 4 i + 3
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i *row = rows + 4 * i;
    __m512i low01 = _mm512_unpacklo_epi32(row[0], row[1]), low23 = _mm512_unpacklo_epi32(row[2], row[3]);
    __m512i high01 = _mm512_unpackhi_epi32(row[0], row[1]), high23 = _mm512_unpackhi_epi32(row[2], row[3]);
    quarters[i][0] = _mm512_unpacklo_epi64(low01, low23);
    quarters[i][1] = _mm512_unpackhi_epi64(low01, low23);
    quarters[i][2] = _mm512_unpacklo_epi64(high01, high23);
    quarters[i][3] = _mm512_unpackhi_epi64(high01, high23);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    __m512i low01 = _mm512_shuffle_i32x4(quarters[0][j], quarters[1][j], 0x44);
    __m512i high01 = _mm512_shuffle_i32x4(quarters[0][j], quarters[1][j], 0xEE);
    __m512i low23 = _mm512_shuffle_i32x4(quarters[2][j], quarters[3][j], 0x44);
    __m512i high23 = _mm512_shuffle_i32x4(quarters[2][j], quarters[3][j], 0xEE);
    _mm512_storeu_si512(out + j * width, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_storeu_si512(out + (4 + j) * width, _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_storeu_si512(out + (8 + j) * width, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_storeu_si512(out + (12 + j) * width, _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}

// to[g * width + r] = from[r * stride + g] as f32, for 32 rows of which those from `rows` on repeat the last.
inline void widenTransposed(const uint16_t *from, int64_t stride, int64_t rows, int64_t groups, float *to) {
  for (int64_t g = 0; g < groups; g += 16)
    for (int64_t c = 0; c < width; c += 16) {
      auto present = static_cast<__mmask16>((1 << std::min<int64_t>(groups - g, 16)) - 1);
      __m512i block[16];
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) {
        const uint16_t *halves = from + std::min(c + i, rows - 1) * stride + g;
        block[i] = _mm512_castps_si512(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(present, halves)));
      }
      storeTransposed(block, reinterpret_cast<uint32_t *>(to) + g * width + c);
    }
}

// to[r] = from[r * stride] as f32.
inline void widenColumn(const uint16_t *from, int64_t stride, int64_t rows, float *to) {
  alignas(64) uint16_t halves[Bf16Products::maximumDepth];
  for (int64_t r = 0; r < rows; ++r, from += stride)
    halves[r] = *from;
  for (int64_t r = 0; r < rows; r += 16)
    _mm512_store_ps(to + r, _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i *>(halves + r))));
}

// Which element of two rows, laid one behind the other, stands at each place of the first sixteen pairs.
inline __m512i firstPairs() {
  return _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35,
                          3, 34, 2, 33, 1, 32, 0);
}

} // namespace mebp::cpu::avx512

HWY_POP_ATTRIBUTES
