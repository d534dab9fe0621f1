// SPDX-License-Identifier: Apache-2.0
//
// A code is a small number that bf16 holds exactly, and is found in a table of sixteen; one of eight bits is two such,
// the upper sixteen times as large. Sixteen bits of a row lie in a lane: the codes of four groups in a vector, or of
// two.
#include "runtime/backends/cpu/products/avx512_codes.h"

#if defined(__x86_64__)

#include <hwy/base.h>
#include <immintrin.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

namespace {

constexpr int64_t groupSize = 32, tileWidth = Bf16Products::panelWidth;

inline __m256 widenHalves(const uint16_t *from, __mmask8 present) {
  return _mm256_cvtph_ps(present == 0xFF ? _mm_loadu_si128(reinterpret_cast<const __m128i *>(from))
                                         : _mm_maskz_loadu_epi16(present, from));
}

inline float sumOf(__m256 value) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// What a code's lower and upper four bits stand for, in bf16: twice, since a look-up takes five bits of a lane.
struct Tables {
  __m512i low, high;
};
inline Tables makeTables() {
  const __m256i once = _mm256_setr_epi16(0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0x4100, 0x4110,
                                         0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170);
  const __m512i low = _mm512_broadcast_i64x4(once);
  // Sixteen times as much: four more in the exponent, but of zero.
  return {low, _mm512_mask_add_epi16(low, 0xFFFEFFFE, low, _mm512_set1_epi16(4 << 7))};
}

inline __m512 multiplyAdd(__m512 sum, __m512i left, __m512i right) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(left), reinterpret_cast<__m512bh>(right));
}

// sums[r] += minimum (sum of x_r), of as many groups as are present; their scales are made floats, with zeros beyond.
template <int Rows>
inline void beginGroups(const CodeFactors &factors, const uint16_t *scales, const uint16_t *minima, int64_t first,
                        __mmask8 present, __m256 (&sums)[Rows]) {
  _mm256_storeu_ps(factors.scales + first, widenHalves(scales, present)); // no mask: they are loaded again at once
  const __m256 minimum = widenHalves(minima, present);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
    sums[r] =
        _mm256_fmadd_ps(minimum, _mm256_maskz_loadu_ps(present, factors.sums + r * factors.groups + first), sums[r]);
}

// A vector of a row's codes, and the groups that they are of.
template <bool fourBits> struct CodeVector {
  static constexpr int64_t groups = fourBits ? 4 : 2, groupBytes = groupSize >> fourBits;

  // sums[r] += scale (x_r code), of the first `count` groups; scales beyond are zeros.
  template <int Rows>
  static void add(const uint8_t *codes, const float *scales, int64_t count, const Tables &tables, const uint16_t *x,
                  int64_t stride, __m512 (&sums)[Rows]) {
    const bool whole = count >= groups;
    const auto bytes = static_cast<__mmask64>((uint64_t{1} << (count * groupBytes % 64)) - 1);
    const __m512i lanes = whole ? _mm512_loadu_si512(codes) : _mm512_maskz_loadu_epi8(bytes, codes);
    const __m512i groupOfLane = fourBits ? _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)
                                         : _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512 scale = _mm512_permutexvar_ps(groupOfLane, _mm512_castps128_ps512(_mm_loadu_ps(scales)));
    const __m512i upper = fourBits ? tables.low : tables.high;
    const __m512i values[] = {_mm512_permutexvar_epi16(lanes, tables.low),
                              _mm512_permutexvar_epi16(_mm512_srli_epi16(lanes, 4), upper),
                              _mm512_permutexvar_epi16(_mm512_srli_epi16(lanes, 8), tables.low),
                              _mm512_permutexvar_epi16(_mm512_srli_epi16(lanes, 12), upper)};
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r, x += stride) {
      __m512 product = _mm512_setzero_ps();
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n)
        product =
            multiplyAdd(product, _mm512_loadu_si512(x + (fourBits ? n : n / 2) * CodeFactors::lanesOfCodes), values[n]);
      sums[r] = _mm512_fmadd_ps(scale, product, sums[r]);
    }
  }
};

// A row of the weight is read from its beginning to its end, and the next one after it: what memory gives soonest.
template <int Rows, bool fourBits> void multiply(const CodeFactors &factors, int64_t row, int64_t count, float *tile) {
  if constexpr (Rows > 1)
    if (factors.rows < Rows)
      return multiply<Rows - 1, fourBits>(factors, row, count, tile);
  using Vector = CodeVector<fourBits>;
  const Tensor &w = factors.w;
  const Tables tables = makeTables();
  const int64_t groups = factors.groups;
  const uint8_t *codes = static_cast<const uint8_t *>(w.data) + row * groups * Vector::groupBytes;
  const uint16_t *scales = w.scales + row * groups, *minima = w.minima + row * groups;
  for (int64_t i = 0; i < count; ++i, scales += groups, minima += groups) {
    __m512 products[Rows];
    __m256 sums[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      products[r] = _mm512_setzero_ps(), sums[r] = _mm256_setzero_ps();
    int64_t done = 0;
    for (; done + 8 <= groups; done += 8)
      beginGroups<Rows>(factors, scales + done, minima + done, done, 0xFF, sums);
    if (done < groups)
      beginGroups<Rows>(factors, scales + done, minima + done, done, static_cast<__mmask8>((1 << (groups - done)) - 1),
                        sums);
    const uint16_t *x = factors.x;
    int64_t g = 0;
    for (; g + Vector::groups <= groups; g += Vector::groups, x += Vector::groups * groupSize, codes += 64) {
      _mm_prefetch(codes + CodeFactors::ahead, _MM_HINT_T0);
      Vector::template add<Rows>(codes, factors.scales + g, Vector::groups, tables, x, factors.depth, products);
    }
    if (g < groups) {
      Vector::template add<Rows>(codes, factors.scales + g, groups - g, tables, x, factors.depth, products);
      codes += (groups - g) * Vector::groupBytes;
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(products[r]), _mm512_extractf32x8_ps(products[r], 1));
      tile[r * tileWidth + i] = sumOf(_mm256_add_ps(half, sums[r]));
    }
  }
}

} // namespace

void multiplyCodes(const CodeFactors &factors, int64_t row, int64_t count, float *tile) {
  if (factors.w.storage == Storage::Int4)
    multiply<CodeFactors::maximumRows, true>(factors, row, count, tile);
  else
    multiply<CodeFactors::maximumRows, false>(factors, row, count, tile);
}

} // namespace mebp::cpu::avx512

HWY_POP_ATTRIBUTES

#endif
