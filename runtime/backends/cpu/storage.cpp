// SPDX-License-Identifier: Apache-2.0
//
// The storage formats of weights, element by element.
#include "runtime/backends/cpu/row.h"

#include <algorithm>

namespace mebp::cpu {

void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, float *out) {
  switch (tensor.storage) {
  case Storage::F32:
    std::memcpy(out, tensor.f32() + row * tensor.stride + column, count * sizeof(float));
    return;
  case Storage::BF16: {
    const auto *values = static_cast<const uint16_t *>(tensor.data) + row * tensor.stride + column;
    for (int64_t c = 0; c < count; ++c)
      out[c] = format::bfloatToFloat(values[c]);
    return;
  }
  case Storage::I32: {
    const int32_t *values = tensor.i32() + row * tensor.stride + column;
    for (int64_t c = 0; c < count; ++c)
      out[c] = static_cast<float>(values[c]);
    return;
  }
  case Storage::Int4:
  case Storage::Int8: {
    bool nibbles = tensor.storage == Storage::Int4;
    const auto *codes = static_cast<const uint8_t *>(tensor.data) + row * tensor.stride / (nibbles ? 2 : 1);
    int64_t firstGroup = row * (tensor.stride / tensor.group), end = column + count;
    for (int64_t c = column; c < end;) {
      int64_t group = c / tensor.group, groupEnd = std::min((group + 1) * tensor.group, end);
      float scale = format::halfToFloat(tensor.scales[firstGroup + group]);
      float minimum = format::halfToFloat(tensor.minima[firstGroup + group]);
      for (; c < groupEnd; ++c) {
        int code = nibbles ? (codes[c / 2] >> (c % 2 * 4)) & 15 : codes[c];
        *out++ = scale * static_cast<float>(code) + minimum;
      }
    }
    return;
  }
  }
}

void dequantizeRow(const Tensor &tensor, int64_t row, Row out) {
  if (!out.isBf16())
    return dequantizeRow(tensor, row, out.floats());
  constexpr int64_t piece = 256;
  float values[piece];
  for (int64_t first = 0; first < tensor.columns; first += piece) {
    int64_t count = std::min(piece, tensor.columns - first);
    dequantize(tensor, row, first, count, values);
    copyRow(Row(values), out + first, count);
  }
}

} // namespace mebp::cpu
