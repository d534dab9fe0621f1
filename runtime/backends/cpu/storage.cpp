// SPDX-License-Identifier: Apache-2.0
//
// The storage formats of weights, element by element.
#include "runtime/backends/cpu/kernel.h"

#include <algorithm>
#include <cstring>

namespace mebp::cpu {

static float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static float halfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1Fu;
  uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24
    float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31)
    return fromBits(sign | 0x7F800000u | (mantissa << 13));
  return fromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

void dequantizeRow(const Tensor &tensor, int64_t row, float *out) {
  switch (tensor.storage) {
  case Storage::F32:
    std::memcpy(out, tensor.f32() + row * tensor.stride, tensor.columns * sizeof(float));
    return;
  case Storage::BF16: {
    const auto *values = static_cast<const uint16_t *>(tensor.data) + row * tensor.stride;
    for (int64_t c = 0; c < tensor.columns; ++c)
      out[c] = fromBits(static_cast<uint32_t>(values[c]) << 16);
    return;
  }
  case Storage::I32: {
    const int32_t *values = tensor.i32() + row * tensor.stride;
    for (int64_t c = 0; c < tensor.columns; ++c)
      out[c] = static_cast<float>(values[c]);
    return;
  }
  case Storage::Int4:
  case Storage::Int8: {
    bool nibbles = tensor.storage == Storage::Int4;
    const auto *codes = static_cast<const uint8_t *>(tensor.data) + row * tensor.stride / (nibbles ? 2 : 1);
    int64_t group = row * (tensor.stride / tensor.group);
    for (int64_t first = 0; first < tensor.columns; first += tensor.group, ++group) {
      float scale = halfToFloat(tensor.scales[group]), minimum = halfToFloat(tensor.minima[group]);
      for (int64_t c = first, end = std::min(first + tensor.group, tensor.columns); c < end; ++c) {
        int code = nibbles ? (codes[c / 2] >> (c % 2 * 4)) & 15 : codes[c];
        out[c] = scale * static_cast<float>(code) + minimum;
      }
    }
    return;
  }
  }
}

} // namespace mebp::cpu
