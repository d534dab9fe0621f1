// SPDX-License-Identifier: Apache-2.0
//
// Every storage of weights is expanded 32 elements of a row at a time; panels differ only in how such rows are put
// together: neighbours interleaved, or 16 x 16 pairs transposed.
#include "runtime/backends/cpu/products/avx512_bf16.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include <immintrin.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

namespace {

constexpr int64_t width = Bf16Products::panelWidth, tileRows = 12;

inline __m512 broadcastHalf(const uint16_t *half) { return _mm512_cvtph_ps(_mm256_set1_epi16(*half)); }

inline __m512i round(__m512 low, __m512 high) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)); }

// w[row][column + i] in bf16, i < 32: the storage is known, so that it is asked for once a panel.
template <Storage storage> class Rows {
public:
  Rows(const Tensor &w, int64_t column) : w(w), column(column) {
    int64_t present = std::clamp<int64_t>(w.columns - column, 0, width);
    mask = static_cast<__mmask32>((uint64_t(1) << present) - 1);
    if constexpr (storage == Storage::Int4 || storage == Storage::Int8) {
      groups = w.stride / w.group;
      group = column / w.group;
    }
  }

  __m512i operator()(int64_t row) const {
    if constexpr (storage == Storage::F32) {
      const float *from = w.f32() + row * w.stride + column;
      return round(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from),
                   _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16));
    } else if constexpr (storage == Storage::BF16) {
      return _mm512_maskz_loadu_epi16(mask, static_cast<const uint16_t *>(w.data) + row * w.stride + column);
    } else {
      __m512 scale = broadcastHalf(w.scales + row * groups + group);
      __m512 minimum = broadcastHalf(w.minima + row * groups + group);
      const auto *codes = static_cast<const uint8_t *>(w.data);
      if constexpr (storage == Storage::Int8) {
        const auto *from = reinterpret_cast<const __m128i *>(codes + row * w.stride + column);
        return round(dequantize(_mm_loadu_si128(from), scale, minimum),
                     dequantize(_mm_loadu_si128(from + 1), scale, minimum));
      } else {
        // The sixteen values of the group, twice, for indices of five bits; then a look-up for each code.
        const __m512 all = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        __m512 values = _mm512_fmadd_ps(all, scale, minimum);
        const auto *from = reinterpret_cast<const __m128i *>(codes + (row * w.stride + column) / 2);
        __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(from));
        __m512i indices = _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12));
        return _mm512_permutexvar_epi16(indices, round(values, values));
      }
    }
  }

private:
  static __m512 dequantize(__m128i codes, __m512 scale, __m512 minimum) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes)), scale, minimum);
  }

  const Tensor &w;
  int64_t column, groups = 0, group = 0;
  __mmask32 mask;
};

template <typename Body> void withStorage(const Tensor &w, const Body &body) {
  switch (w.storage) {
  case Storage::F32:
    return body(std::integral_constant<Storage, Storage::F32>());
  case Storage::BF16:
    return body(std::integral_constant<Storage, Storage::BF16>());
  case Storage::Int8:
    return body(std::integral_constant<Storage, Storage::Int8>());
  default:
    return body(std::integral_constant<Storage, Storage::Int4>());
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

template <int Rows>
__attribute__((noinline)) void multiplyRows(int64_t depth, const uint16_t *left, int64_t leftStride,
                                            const uint16_t *panel, float *tile) {
  __m512 sums[Rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    sums[r][0] = sums[r][1] = _mm512_setzero_ps();
  // Three rows share a pointer, so that the addresses of twelve fit the general registers.
  constexpr int pointers = (Rows + 2) / 3;
  const uint16_t *rows[pointers];
#pragma GCC unroll 4
  for (int p = 0; p < pointers; ++p)
    rows[p] = left + 3 * p * leftStride;
  for (int64_t d = 0; d < depth; d += 2) {
    auto right0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel));
    auto right1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(panel + width));
    panel += 2 * width;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      int32_t pair;
      std::memcpy(&pair, rows[r / 3] + r % 3 * leftStride, sizeof(pair));
      auto value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], value, right0);
      sums[r][1] = _mm512_dpbf16_ps(sums[r][1], value, right1);
    }
#pragma GCC unroll 4
    for (int p = 0; p < pointers; ++p)
      rows[p] += 2;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    _mm512_storeu_ps(tile + r * width, sums[r][0]);
    _mm512_storeu_ps(tile + r * width + 16, sums[r][1]);
  }
}

template <int Rows = tileRows>
void multiply(int64_t rows, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel,
              float *tile) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return multiply<Rows - 1>(rows, depth, left, leftStride, panel, tile);
  multiplyRows<Rows>(depth, left, leftStride, panel, tile);
}

void nothing() {}

} // namespace

void round(const float *from, int64_t count, uint16_t *to) {
  for (; count >= 32; count -= 32, from += 32, to += 32)
    _mm512_storeu_si512(to, round(_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16)));
  for (; count > 0; count -= 16, from += 16, to += 16) {
    auto present = static_cast<__mmask16>(count < 16 ? (1 << count) - 1 : -1);
    auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(present, from)));
    _mm256_mask_storeu_epi16(to, present, rounded);
  }
}

void expand(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel) {
  // Which element of two rows, laid one behind the other, stands at each place of the first sixteen pairs.
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  withStorage(w, [&](auto storage) {
    const Rows<storage()> rows(w, column);
    const auto rowOrZeros = [&](int64_t d) { return d < count ? rows(row + d) : _mm512_setzero_si512(); };
    for (int64_t d = 0, end = (count + width - 1) / width * width; d < end; d += 2, panel += 2 * width) {
      __m512i even = rowOrZeros(d), odd = rowOrZeros(d + 1);
      _mm512_storeu_si512(panel, _mm512_permutex2var_epi16(even, first, odd));
      _mm512_storeu_si512(panel + width, _mm512_permutex2var_epi16(even, second, odd));
    }
  });
}

void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel) {
  withStorage(w, [&](auto storage) {
    for (int64_t d = 0; d < count; d += width, panel += width * width) {
      const Rows<storage()> rows(w, column + d);
      for (int64_t c = 0; c < width; c += 16) {
        __m512i block[16];
        for (int64_t i = 0; i < 16; ++i)
          block[i] = rows(std::min(row + c + i, w.rows - 1));
        storeTransposed(block, reinterpret_cast<uint32_t *>(panel) + c);
      }
    }
  });
}

const Bf16Products products = {tileRows, 512, 2, false, expand, expandTransposed, round, multiply<>, nothing, nothing};

} // namespace mebp::cpu::avx512

#pragma GCC pop_options

#endif
