// SPDX-License-Identifier: Apache-2.0
//
// Eight bits for a number of [-1, 1], or of [0, 1]: Dettmers, 2015, dynamic tree quantisation, as bitsandbytes has it
// (create_dynamic_map). A number's code is that of the nearest value; of two that are as near, the lower code.
//
// Values: 0, 1, and for each of seven powers of ten, from 1e-6 to 1, the middles of equal parts of [0.1, 1] of it: of
// the signed map 1, 2, 4, ... 64 parts, each value with both signs, and of the unsigned one twice as many.
#pragma once

#include <cmath>
#include <cstdint>

#include "format/half.h"

namespace mebp {

// The values from 0 on, which are those of the signed map without its negative ones.
template <bool isSigned> class DynamicMap {
public:
  constexpr DynamicMap() {
    constexpr float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
    uint32_t count = 1, parts = isSigned ? 1 : 2;
    for (float power : powers) {
      for (uint32_t i = 0; i < parts; ++i)
        values[count++] = power * ((boundary(i, parts) + boundary(i + 1, parts)) / 2);
      parts *= 2;
    }
    values[count] = 1;
    uint32_t nearest = 0;
    for (uint32_t i = 0; i < bins; ++i) {
      nearest = findNearest(lowestOf(i), nearest, false);
      begin[i] = static_cast<uint8_t>(nearest);
    }
  }

  // Of a number whose magnitude is at most 1.
  uint8_t encode(float number) const {
    const bool isNegative = isSigned && std::signbit(number);
    const float magnitude = std::fabs(number);
    const uint32_t bin = format::floatBits(magnitude) >> binShift;
    uint32_t nearest = findNearest(magnitude, begin[bin < bins ? bin : bins - 1], isNegative);
    if (!isNegative)
      return static_cast<uint8_t>(zero + nearest);
    return static_cast<uint8_t>(zero - (nearest < zero ? nearest : zero));
  }
  float decode(uint8_t code) const { return code >= zero ? values[code - zero] : -values[zero - code]; }

private:
  static constexpr uint32_t zero = isSigned ? 127 : 0, last = 255 - zero;
  // Numbers of one power of two and one 32nd of it share a bin.
  static constexpr uint32_t binShift = 18, binsOfPower = 32, bins = 127 * binsOfPower + 1;

  // As torch.linspace(0.1, 1, parts + 1) rounds it, from the nearer end.
  static constexpr float boundary(uint32_t i, uint32_t parts) {
    constexpr float begin = 0.1f, end = 1;
    const double step = (end - begin) / static_cast<float>(parts);
    return static_cast<float>(i < (parts + 1) / 2 ? begin + step * i : end - step * (parts - i));
  }
  static constexpr float lowestOf(uint32_t bin) {
    if (bin < binsOfPower) // less than any value
      return 0;
    float lowest = 1 + static_cast<float>(bin % binsOfPower) / binsOfPower;
    for (uint32_t power = bin / binsOfPower; power < 127; ++power)
      lowest /= 2;
    return lowest;
  }
  // From one that is not above it on. Of two that are as near, the higher value is the lower code of negative numbers.
  constexpr uint32_t findNearest(float magnitude, uint32_t from, bool isHigher) const {
    for (; from < last; ++from) {
      const float above = values[from + 1] - magnitude, below = magnitude - values[from];
      if (isHigher ? above > below : above >= below)
        break;
    }
    return from;
  }

  float values[last + 1] = {};
  uint8_t begin[bins] = {}; // the nearest of the lowest number in each bin
};

} // namespace mebp
