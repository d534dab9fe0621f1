// SPDX-License-Identifier: Apache-2.0
//
// While one of these lives, numbers below 1.2e-38 are zero in its thread. Attention has many where a query hardly sees
// most keys, and x86 takes long for each: a fourteenth of an AVX2 step of SmolLM2 with random tokens. Cores of AArch64
// take no longer for them than for others.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace mebp::cpu {

class FlushDenormals {
public:
#if defined(__x86_64__)
  FlushDenormals() : before(_mm_getcsr()) { _mm_setcsr(before | ofOperands | ofResults); }
  ~FlushDenormals() { _mm_setcsr(before); }
#else
  FlushDenormals() {} // not trivial, or it would be an unused variable
#endif
  FlushDenormals(const FlushDenormals &) = delete;

private:
#if defined(__x86_64__)
  static constexpr uint32_t ofOperands = 1 << 6, ofResults = 1 << 15;
  const uint32_t before;
#endif
};

} // namespace mebp::cpu
