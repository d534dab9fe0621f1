// SPDX-License-Identifier: Apache-2.0
//
// Conversions between f32 and the 16-bit floats that weights are stored in.
#pragma once

#include <cstdint>
#include <cstring>

namespace mebp::format {

inline uint32_t floatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float bitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float bfloatToFloat(uint16_t value) { return bitsToFloat(static_cast<uint32_t>(value) << 16); }

// Rounds to nearest, ties to even; keeps NaN a NaN.
inline uint16_t floatToBfloat(float value) {
  uint32_t bits = floatBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float halfToFloat(uint16_t value) {
  uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16;
  uint32_t exponent = (value >> 10) & 0x1Fu, mantissa = value & 0x3FFu;
  if (exponent == 31)
    return bitsToFloat(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return bitsToFloat(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even; too large becomes infinite.
inline uint16_t floatToHalf(float value) {
  uint32_t bits = floatBits(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u)
    return sign | 0x7E00u;
  if (bits >= 0x47800000u) // 2^16
    return sign | 0x7C00u;
  if (bits < 0x38800000u) { // below 2^-14: subnormal; adding 0.5 puts the rounding where f16 has it
    float shifted = bitsToFloat(bits) + 0.5f;
    return sign | static_cast<uint16_t>(floatBits(shifted) - 0x3F000000u);
  }
  bits += 0xC8000FFFu + ((bits >> 13) & 1u);
  return sign | static_cast<uint16_t>(bits >> 13);
}

} // namespace mebp::format
