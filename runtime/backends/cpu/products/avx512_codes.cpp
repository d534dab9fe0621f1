// SPDX-License-Identifier: Apache-2.0
//
// A code is a small number that bf16 holds exactly, and is found in a table of sixteen; one of eight bits is two such,
// the upper sixteen times as large. Vectors are of 256 bits: half a group of int4 codes, whose scale all lanes share.
#include "runtime/backends/cpu/products/avx512_codes.h"

#if defined(__x86_64__)

#include <algorithm>

#include <hwy/base.h>
#include <immintrin.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

namespace {

constexpr int64_t groupSize = 32, tileWidth = Bf16Products::panelWidth;

inline __m256i load(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }

inline __m256 widenHalves(const uint16_t *from, __mmask8 present) {
  return _mm256_cvtph_ps(present == 0xFF ? _mm_loadu_si128(reinterpret_cast<const __m128i *>(from))
                                         : _mm_maskz_loadu_epi16(present, from));
}

inline float sumOf(__m256 value) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// What a code's lower and upper four bits stand for, in bf16.
struct Tables {
  __m256i low, high;
};
inline Tables makeTables() {
  const __m256i low = load((const uint16_t[]){0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0, 0x4100,
                                              0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170});
  // Sixteen times as much: four more in the exponent, but of zero.
  return {low, _mm256_mask_add_epi16(low, 0xFFFE, low, _mm256_set1_epi16(4 << 7))};
}

// Of sixteen bytes.
struct Values {
  __m256i low, high;
};
inline Values look(const uint8_t *codes, __m256i lowTable, __m256i highTable) {
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(codes)));
  return {_mm256_permutexvar_epi16(bytes, lowTable), _mm256_permutexvar_epi16(_mm256_srli_epi16(bytes, 4), highTable)};
}

inline __m256 multiplyAdd(__m256 sum, __m256i left, __m256i right) {
  return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(left), reinterpret_cast<__m256bh>(right));
}

// sums[r] += minimum (sum of x_r), of as many groups as are present; their scales are made floats.
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

// sums[r] += scale (x_r code), of one group.
template <int Rows, bool fourBits>
inline void addGroup(const uint8_t *codes, const Tables &tables, float scale, const uint16_t *x, int64_t stride,
                     __m256 (&sums)[Rows]) {
  const Values first = look(codes, tables.low, fourBits ? tables.low : tables.high);
  const Values second = fourBits ? Values{} : look(codes + groupSize / 2, tables.low, tables.high);
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r, x += stride) {
    const __m256i left = load(x), right = load(x + groupSize / 2);
    __m256 product = multiplyAdd(_mm256_setzero_ps(), left, first.low);
    product = multiplyAdd(product, fourBits ? right : left, first.high);
    if (!fourBits)
      product = multiplyAdd(multiplyAdd(product, right, second.low), right, second.high);
    sums[r] = _mm256_fmadd_ps(_mm256_set1_ps(scale), product, sums[r]);
  }
}

// A row of the weight is read from its beginning to its end, and the next one after it: what memory gives soonest.
template <int Rows, bool fourBits> void multiply(const CodeFactors &factors, int64_t row, int64_t count, float *tile) {
  if constexpr (Rows > 1)
    if (factors.rows < Rows)
      return multiply<Rows - 1, fourBits>(factors, row, count, tile);
  const Tensor &w = factors.w;
  const Tables tables = makeTables();
  const int64_t groups = factors.groups, groupBytes = groupSize >> fourBits;
  const uint8_t *codes = static_cast<const uint8_t *>(w.data) + row * groups * groupBytes;
  const uint16_t *scales = w.scales + row * groups, *minima = w.minima + row * groups;
  for (int64_t i = 0; i < count; ++i, scales += groups, minima += groups) {
    __m256 even[Rows], odd[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      even[r] = odd[r] = _mm256_setzero_ps();
    int64_t done = 0;
    for (; done + 8 <= groups; done += 8)
      beginGroups<Rows>(factors, scales + done, minima + done, done, 0xFF, even);
    if (done < groups)
      beginGroups<Rows>(factors, scales + done, minima + done, done, static_cast<__mmask8>((1 << (groups - done)) - 1),
                        even);
    const uint16_t *x = factors.x;
    int64_t g = 0;
    for (; g + 2 <= groups; g += 2, x += 2 * groupSize, codes += 2 * groupBytes) {
      _mm_prefetch(codes + CodeFactors::ahead, _MM_HINT_T0);
      addGroup<Rows, fourBits>(codes, tables, factors.scales[g], x, w.stride, even);
      addGroup<Rows, fourBits>(codes + groupBytes, tables, factors.scales[g + 1], x + groupSize, w.stride, odd);
    }
    if (g < groups) {
      addGroup<Rows, fourBits>(codes, tables, factors.scales[g], x, w.stride, even);
      codes += groupBytes;
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      tile[r * tileWidth + i] = sumOf(_mm256_add_ps(even[r], odd[r]));
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
