// SPDX-License-Identifier: Apache-2.0
//
// One group of a block: numbers x that become scale * code - low with whole codes from 0 to `top`.
#pragma once

#include "format/half.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mebp::gguf {

// Sums go to this many places at once, so that a compiler may use vectors without changing their order.
constexpr unsigned lanes = 8;

inline float total(const float (&sums)[lanes]) {
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// The nearest codes, which are whole, and the sum of squares of what they lose. A scale of 0 has codes of 0.
template <unsigned Count>
inline float assign(const float *__restrict x, float scale, float low, float top, float *__restrict codes) {
  const float inverse = scale != 0 ? 1 / scale : 0;
  float sums[lanes] = {};
  for (unsigned i = 0; i < Count; i += lanes)
    for (unsigned lane = 0; lane < lanes; ++lane) {
      float code = (x[i + lane] + low) * inverse;
      code = code > 0 ? code : 0; // also what is no number
      code = code < top ? code : top;
      code = static_cast<float>(static_cast<int32_t>(code + 0.5f));
      codes[i + lane] = code;
      const float lost = x[i + lane] - (scale * code - low);
      sums[lane] += lost * lost;
    }
  return total(sums);
}

// What `codes` lose with another scale and low.
template <unsigned Count>
inline float lostBy(const float *__restrict x, float scale, float low, const float *__restrict codes) {
  float sums[lanes] = {};
  for (unsigned i = 0; i < Count; i += lanes)
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const float lost = x[i + lane] - (scale * codes[i + lane] - low);
      sums[lane] += lost * lost;
    }
  return total(sums);
}

// Of codes less `zero`: their sum, that of their squares, and that of their products with x.
struct Sums {
  float code, square, product;
};
template <unsigned Count> inline Sums sum(const float *__restrict x, const float *__restrict codes, float zero) {
  float code[lanes] = {}, square[lanes] = {}, product[lanes] = {};
  for (unsigned i = 0; i < Count; i += lanes)
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const float each = codes[i + lane] - zero;
      code[lane] += each;
      square[lane] += each * each;
      product[lane] += each * x[i + lane];
    }
  return {total(code), total(square), total(product)};
}

// f16, as a reader will have it.
inline float rounded(float value) { return format::halfToFloat(format::floatToHalf(value)); }

// The f16 by which `largest` becomes about `steps`. Where f16 is too coarse it is the next one up: with less, no number
// of so many steps would reach.
inline float stepOf(float largest, float steps) {
  const float step = largest / steps, found = rounded(step);
  if (std::isinf(found) || std::abs(found) * (std::abs(steps) + 0.5f) >= std::abs(largest))
    return found;
  return format::halfToFloat(static_cast<uint16_t>(format::floatToHalf(step) + 1));
}

// The nearest number of steps; none where a step is 0.
inline float stepsOf(float value, float step, float least, float most) {
  return step != 0 ? std::clamp(std::nearbyint(value / step), least, most) : 0;
}

// From the most that a group may have on: with how many of them the largest fit is tried.
constexpr float triedSteps = 6;

} // namespace mebp::gguf
