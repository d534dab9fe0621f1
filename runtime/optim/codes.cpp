// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "format/half.h"
#include "format/random.h"

namespace mebp {

namespace {

using format::floatToHalf;
using format::halfToFloat;

constexpr uint16_t signBit = 0x8000;

// The next f16 towards minus infinity, and towards infinity, of finite numbers.
uint16_t below(uint16_t half) {
  if (half == 0)
    return signBit | 1;
  return static_cast<uint16_t>(half & signBit ? half + 1 : half - 1);
}
uint16_t above(uint16_t half) {
  if (half == signBit)
    return 1;
  return static_cast<uint16_t>(half & signBit ? half - 1 : half + 1);
}

// The largest f16 that is not above the number, and the smallest that is not below it.
uint16_t roundDown(float number) {
  const uint16_t half = floatToHalf(number);
  return halfToFloat(half) > number ? below(half) : half;
}
uint16_t roundUp(float number) {
  const uint16_t half = floatToHalf(number);
  return halfToFloat(half) < number ? above(half) : half;
}

struct Grid {
  // What is not finite leaves none: the scale is NaN, and so is the loss of the next step.
  Grid(const float *values, uint64_t count, int largestCode) {
    float lowest = values[0], highest = values[0], sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      lowest = std::min(lowest, values[i]);
      highest = std::max(highest, values[i]);
      sum += values[i];
    }
    const bool isFinite = std::isfinite(sum);
    minimum = roundDown(isFinite ? lowest : 0);
    scale = isFinite ? roundUp((highest - halfToFloat(minimum)) / static_cast<float>(largestCode))
                     : floatToHalf(std::numeric_limits<float>::quiet_NaN());
    step = halfToFloat(scale), first = halfToFloat(minimum);
  }
  float positionOf(float value) const { return step > 0 ? (value - first) / step : 0; }

  uint16_t scale, minimum;
  float step, first;
};

template <typename Round>
void writeRow(const float *values, uint64_t columns, const CodedRow &out, const Round &round) {
  const bool isNarrow = out.storage == format::Storage::Int4;
  const int largestCode = isNarrow ? 15 : 255;
  for (uint64_t group = 0, begin = 0; begin < columns; ++group, begin += format::groupSize) {
    const uint64_t count = std::min(format::groupSize, columns - begin);
    const Grid grid(values + begin, count, largestCode);
    out.scales[group] = grid.scale, out.minima[group] = grid.minimum;
    unsigned char codes[format::groupSize] = {};
    for (uint64_t i = 0; i < count; ++i)
      codes[i] =
          static_cast<unsigned char>(std::clamp(round(grid.positionOf(values[begin + i]), begin + i), 0, largestCode));
    if (!isNarrow)
      std::copy_n(codes, format::groupSize, out.codes + begin);
    for (uint64_t pair = 0; isNarrow && pair < format::groupSize / 2; ++pair)
      out.codes[begin / 2 + pair] = static_cast<unsigned char>(codes[2 * pair] | codes[2 * pair + 1] << 4);
  }
}

// In [0, 1).
float drawUnit(uint64_t seed, uint64_t element) {
  return static_cast<float>(format::randomBits(seed, 0, element) >> 40) * 0x1.0p-24f;
}

} // namespace

void roundToNearest(const float *values, uint64_t columns, const CodedRow &out) {
  writeRow(values, columns, out, [](float position, uint64_t) { return static_cast<int>(std::nearbyint(position)); });
}

void roundAtRandom(const float *values, uint64_t columns, uint64_t seed, uint64_t element, const CodedRow &out) {
  writeRow(values, columns, out, [&](float position, uint64_t column) {
    const int lower = static_cast<int>(position); // it is not negative; a call of floor costs more than all of this
    return lower + (drawUnit(seed, element + column) < position - static_cast<float>(lower));
  });
}

} // namespace mebp
