// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/Quantize.h"

#include "format/container.h"
#include "format/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mebp {

using format::floatToHalf;
using format::halfToFloat;

std::optional<WeightFormat> parseWeightFormat(std::string_view name) {
  if (name == "f32")
    return WeightFormat::F32;
  if (name == "bf16")
    return WeightFormat::BF16;
  if (name == "int4")
    return WeightFormat::Int4;
  if (name == "int4-sym")
    return WeightFormat::Int4Symmetric;
  if (name == "int8")
    return WeightFormat::Int8;
  return std::nullopt;
}

uint64_t getRowGroups(WeightFormat format, uint64_t columns) {
  return isQuantized(format) ? (columns + format::groupSize - 1) / format::groupSize : 0;
}

uint64_t getRowBytes(WeightFormat weightFormat, uint64_t columns) {
  switch (weightFormat) {
  case WeightFormat::F32:
    return columns * 4;
  case WeightFormat::BF16:
    return columns * 2;
  case WeightFormat::Int8:
    return getRowGroups(weightFormat, columns) * format::groupSize;
  case WeightFormat::Int4:
  case WeightFormat::Int4Symmetric:
    return getRowGroups(weightFormat, columns) * format::groupSize / 2;
  }
  return 0;
}

namespace {

struct Affine {
  uint16_t scale, minimum;
  int largestCode;
};

Affine fitAffine(const float *values, uint64_t count) {
  auto [lowest, highest] = std::minmax_element(values, values + count);
  return {floatToHalf((*highest - *lowest) / 15.0f), floatToHalf(*lowest), 15};
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

} // namespace

bool storeRow(WeightFormat weightFormat, const float *row, uint64_t columns, unsigned char *data, uint16_t *scales,
              uint16_t *minima) {
  if (weightFormat == WeightFormat::F32) {
    std::memcpy(data, row, columns * sizeof(float));
    return true;
  }
  if (weightFormat == WeightFormat::BF16) {
    for (uint64_t i = 0; i < columns; ++i) {
      uint16_t value = format::floatToBfloat(row[i]);
      std::memcpy(data + 2 * i, &value, sizeof value);
    }
    return true;
  }
  std::memset(data, 0, getRowBytes(weightFormat, columns));
  for (uint64_t group = 0; group < getRowGroups(weightFormat, columns); ++group) {
    uint64_t begin = group * format::groupSize, count = std::min<uint64_t>(format::groupSize, columns - begin);
    const float *values = row + begin;
    Affine fit = weightFormat == WeightFormat::Int4   ? fitAffine(values, count)
                 : weightFormat == WeightFormat::Int8 ? fitSymmetric8(values, count)
                                                      : fitSymmetric4(values, count);
    scales[group] = fit.scale;
    minima[group] = fit.minimum;
    float scale = halfToFloat(fit.scale), minimum = halfToFloat(fit.minimum);
    if (!std::isfinite(scale) || !std::isfinite(minimum))
      return false;
    for (uint64_t i = 0; i < count; ++i) {
      float position = scale != 0.0f ? std::nearbyint((values[i] - minimum) / scale) : 0.0f;
      auto code = static_cast<unsigned char>(std::clamp(position, 0.0f, static_cast<float>(fit.largestCode)));
      uint64_t column = begin + i;
      if (weightFormat == WeightFormat::Int8)
        data[column] = code;
      else
        data[column / 2] |= static_cast<unsigned char>(column % 2 ? code << 4 : code);
    }
  }
  return true;
}

} // namespace mebp
