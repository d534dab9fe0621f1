// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/Quantize.h"

#include "format/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mebp {

using format::floatToHalf;
using format::halfToFloat;

namespace {

struct Affine {
  uint16_t scale, minimum;
  int largestCode;
};

Affine fitAffine(const float *values, uint64_t count) {
  float lowest = values[0], highest = values[0];
  for (uint64_t i = 1; i < count; ++i) { // without branches: which is the lowest cannot be guessed
    lowest = values[i] < lowest ? values[i] : lowest;
    highest = highest > values[i] ? highest : values[i];
  }
  return {floatToHalf((highest - lowest) / 15.0f), floatToHalf(lowest), 15};
}

Affine fitSymmetric4(const float *values, uint64_t count) {
  float extreme =
      *std::max_element(values, values + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  uint16_t scale = floatToHalf(extreme / -8.0f);
  return {scale, floatToHalf(-8.0f * halfToFloat(scale)), 15};
}

Affine fitSymmetric8(const float *values, uint64_t count) {
  float largest = 0.0f;
  for (uint64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::fabs(values[i]));
  uint16_t scale = floatToHalf(largest / 127.0f);
  return {scale, floatToHalf(-128.0f * halfToFloat(scale)), 255};
}

/// To the nearest code, ties to even, as std::nearbyint does, but in instructions that every machine has: a float of
/// this size has no bits for a fraction.
unsigned char roundCode(float position, int largestCode) {
  constexpr float noFraction = 0x1.8p23f;
  float rounded = std::clamp(position, 0.0f, static_cast<float>(largestCode)) + noFraction;
  return static_cast<unsigned char>(format::floatBits(rounded) & 0xFF);
}

} // namespace

bool storeRow(format::WeightFormat weightFormat, const float *row, uint64_t columns, unsigned char *data,
              uint16_t *scales, uint16_t *minima) {
  if (weightFormat == format::WeightFormat::F32) {
    std::memcpy(data, row, columns * sizeof(float));
    return true;
  }
  if (weightFormat == format::WeightFormat::BF16 || weightFormat == format::WeightFormat::F16) {
    for (uint64_t i = 0; i < columns; ++i) {
      uint16_t value = weightFormat == format::WeightFormat::BF16 ? format::floatToBfloat(row[i]) : floatToHalf(row[i]);
      std::memcpy(data + 2 * i, &value, sizeof value);
    }
    return true;
  }
  for (uint64_t group = 0; group < groupsOf(format::storageOf(weightFormat), columns); ++group) {
    uint64_t begin = group * format::groupSize, count = std::min<uint64_t>(format::groupSize, columns - begin);
    const float *values = row + begin;
    Affine fit = weightFormat == format::WeightFormat::Int4   ? fitAffine(values, count)
                 : weightFormat == format::WeightFormat::Int8 ? fitSymmetric8(values, count)
                                                              : fitSymmetric4(values, count);
    scales[group] = fit.scale;
    minima[group] = fit.minimum;
    float scale = halfToFloat(fit.scale), minimum = halfToFloat(fit.minimum);
    if (!std::isfinite(scale) || !std::isfinite(minimum))
      return false;
    unsigned char codes[format::groupSize] = {};
    if (scale != 0.0f)
      for (uint64_t i = 0; i < count; ++i)
        codes[i] = roundCode((values[i] - minimum) / scale, fit.largestCode);
    if (weightFormat == format::WeightFormat::Int8)
      std::copy_n(codes, format::groupSize, data + begin);
    else
      for (uint64_t pair = 0; pair < format::groupSize / 2; ++pair)
        data[begin / 2 + pair] = static_cast<unsigned char>(codes[2 * pair] | codes[2 * pair + 1] << 4);
  }
  return true;
}

} // namespace mebp
