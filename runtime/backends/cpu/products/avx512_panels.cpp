// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/products/avx512_panels.h"

#if defined(__x86_64__)

#include "runtime/backends/cpu/products/avx512_rows-inl.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

namespace {

template <Storage storage> void expandAs(const Tensor &w, int64_t row, int64_t count, int64_t column, uint16_t *panel) {
  const __m512i low = firstPairs();
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  alignas(64) float scales[Bf16Products::maximumDepth], minima[Bf16Products::maximumDepth];
  if constexpr (format::isQuantised(storage)) {
    int64_t groups = w.stride / w.group, first = row * groups + column / w.group;
    widenColumn(w.scales + first, groups, count, scales);
    widenColumn(w.minima + first, groups, count, minima);
  }
  const __mmask32 present = presentOf(w, column);
  const uint8_t *from = rowOf<storage>(w, row);
  const int64_t stride = format::bytesOf(storage, w.stride);
  int64_t d = 0;
  for (; d + 1 < count; d += 2, from += 2 * stride, panel += 2 * width) {
    TwoRows rows = load<storage>(from, from + stride, column, scales + d, minima + d, present);
    _mm512_storeu_si512(panel, _mm512_permutex2var_epi16(rows.first, low, rows.second));
    _mm512_storeu_si512(panel + width, _mm512_permutex2var_epi16(rows.first, high, rows.second));
  }
  const __m512i zeros = _mm512_setzero_si512();
  for (; d < (count + width - 1) / width * width; d += 2, panel += 2 * width) {
    __m512i last = d < count ? load<storage>(from, from, column, scales + d, minima + d, present).first : zeros;
    _mm512_storeu_si512(panel, _mm512_permutex2var_epi16(last, low, zeros));
    _mm512_storeu_si512(panel + width, _mm512_permutex2var_epi16(last, high, zeros));
  }
}

template <Storage storage>
void expandTransposedAs(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel) {
  const int64_t rows = std::min(width, w.rows - row);
  alignas(64) float scales[Bf16Products::maximumDepth], minima[Bf16Products::maximumDepth];
  if constexpr (format::isQuantised(storage)) {
    int64_t groupsOfRow = w.stride / w.group, first = row * groupsOfRow + column / w.group;
    int64_t groups = (column % w.group + count + w.group - 1) / w.group;
    widenTransposed(w.scales + first, groupsOfRow, rows, groups, scales);
    widenTransposed(w.minima + first, groupsOfRow, rows, groups, minima);
    // For the next panel: its rows are too many for the CPU to foresee.
    for (int64_t r = width; r < 2 * width; ++r) {
      _mm_prefetch(w.scales + first + r * groupsOfRow, _MM_HINT_T0);
      _mm_prefetch(w.minima + first + r * groupsOfRow, _MM_HINT_T0);
    }
  }
  const uint8_t *from[width];
  for (int64_t r = 0; r < width; ++r)
    from[r] = rowOf<storage>(w, row + std::min(r, rows - 1));
  for (int64_t d = 0; d < count; d += width, panel += width * width) {
    const __mmask32 present = presentOf(w, column + d);
    const int64_t group = format::isQuantised(storage) ? (column % w.group + d) / w.group * width : 0;
    const int64_t at = format::bytesOf(storage, column + d);
    if (constexpr int64_t line = 64; format::isQuantised(storage) && at % line == 0)
      for (int64_t r = 0; r < width; ++r)
        _mm_prefetch(from[r] + at + 2 * line, _MM_HINT_T0);
    for (int64_t c = 0; c < width; c += 16) {
      __m512i block[16];
#pragma GCC unroll 8
      for (int64_t i = 0; i < 16; i += 2) {
        const int64_t r = c + i;
        TwoRows two = load<storage>(from[r], from[r + 1], column + d, scales + group + r, minima + group + r, present);
        block[i] = two.first, block[i + 1] = two.second;
      }
      storeTransposed(block, reinterpret_cast<uint32_t *>(panel) + c);
    }
  }
}

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
  withStorage(w, [&](auto storage) { expandAs<storage()>(w, row, count, column, panel); });
}

void expandTransposed(const Tensor &w, int64_t row, int64_t column, int64_t count, uint16_t *panel) {
  withStorage(w, [&](auto storage) { expandTransposedAs<storage()>(w, row, column, count, panel); });
}

} // namespace mebp::cpu::avx512

HWY_POP_ATTRIBUTES

#endif
