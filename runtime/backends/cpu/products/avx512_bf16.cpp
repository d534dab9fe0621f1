// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/products/avx512_bf16.h"

#if defined(__x86_64__)

#include "runtime/backends/cpu/products/avx512_codes.h"
#include "runtime/backends/cpu/products/avx512_panels.h"

#include <cstring>

#include <hwy/base.h>
#include <immintrin.h>

// After all headers, so that nothing of theirs is compiled for this CPU alone.
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

namespace {

constexpr int64_t width = Bf16Products::panelWidth, tileRows = 12;

template <int Rows>
__attribute__((noinline)) void multiplyRows(int64_t depth, const uint16_t *left, int64_t leftStride,
                                            const uint16_t *panel, float *out, int64_t outStride, bool adds) {
  __m512 sums[Rows][2];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < 2; ++v)
      sums[r][v] = adds ? _mm512_loadu_ps(out + r * outStride + 16 * v) : _mm512_setzero_ps();
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
    _mm512_storeu_ps(out + r * outStride, sums[r][0]);
    _mm512_storeu_ps(out + r * outStride + 16, sums[r][1]);
  }
}

template <int Rows = tileRows>
void multiply(int64_t rows, int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel, float *sums,
              int64_t sumsStride, bool adds) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return multiply<Rows - 1>(rows, depth, left, leftStride, panel, sums, sumsStride, adds);
  multiplyRows<Rows>(depth, left, leftStride, panel, sums, sumsStride, adds);
}

void nothing() {}

} // namespace

const Bf16Products products = {tileRows,
                               Bf16Products::maximumDepth,
                               Bf16Products::maximumDepth,
                               2,
                               false,
                               expand,
                               expandTransposed,
                               round,
                               multiply<>,
                               multiplyCodes,
                               nothing,
                               nothing};

} // namespace mebp::cpu::avx512

HWY_POP_ATTRIBUTES

#endif
