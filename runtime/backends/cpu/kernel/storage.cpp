// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/kernel/row.h"

#include "format/stored_row.h"

#include <algorithm>

namespace mebp::cpu {

void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, float *out) {
  format::StoredRow stored;
  stored.storage = tensor.storage;
  stored.data = static_cast<const unsigned char *>(tensor.data) +
                format::bytesOf(tensor.storage, static_cast<uint64_t>(row * tensor.stride));
  if (tensor.group) {
    stored.group = tensor.group;
    stored.scales = tensor.scales + row * (tensor.stride / tensor.group);
    stored.minima = tensor.minima + row * (tensor.stride / tensor.group);
  }
  format::readRow(stored, column, count, out);
}

void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, Row out) {
  if (!out.isBf16())
    return dequantize(tensor, row, column, count, out.floats());
  constexpr int64_t piece = 256;
  float values[piece];
  for (int64_t first = 0; first < count; first += piece) {
    const int64_t some = std::min(piece, count - first);
    dequantize(tensor, row, column + first, some, values);
    copyRow(Row(values), out + first, some);
  }
}

} // namespace mebp::cpu
