// SPDX-License-Identifier: Apache-2.0
//
// Sixteen-bit floats, widened exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace mebp {

inline float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float fromBfloat16(uint16_t bits) { return fromBits(static_cast<uint32_t>(bits) << 16); }

inline float fromFloat16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
  if (exponent == 0) // zero or subnormal: fraction * 2^-24
    return std::copysign(std::ldexp(static_cast<float>(fraction), -24), fromBits(sign | 0x3F800000));
  if (exponent == 31)
    return fromBits(sign | 0x7F800000 | (fraction << 13));
  return fromBits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

} // namespace mebp
