// SPDX-License-Identifier: Apache-2.0
//
// What a stored row's numbers are.
#pragma once

#include "format/blocks.h"

#include <algorithm>
#include <cstring>

namespace mebp::format {

// A row of a matrix, or of a slice of one that begins with a group or a block.
struct StoredRow {
  Storage storage = Storage::F32;
  const void *data = nullptr;
  const uint16_t *scales = nullptr, *minima = nullptr; // f16, of a quantised row
  int64_t group = groupSize;

  int code(int64_t column) const {
    const auto *codes = static_cast<const uint8_t *>(data);
    return storage == Storage::Int8 ? codes[column] : (codes[column / 2] >> (column % 2 * 4)) & 15;
  }
};

template <Storage storage> inline void readPieces(const void *data, int64_t column, int64_t count, float *out) {
  for (const int64_t end = column + count; column < end;) {
    float piece[pieceSize];
    const int64_t first = column % pieceSize, some = std::min(pieceSize - first, end - column);
    expandPiece<storage>(data, column / pieceSize, piece);
    std::memcpy(out, piece + first, static_cast<size_t>(some) * sizeof(float));
    column += some, out += some;
  }
}

// Writes the numbers of [column, column + count) to out: the one definition of what a quantised element is.
inline void readRow(const StoredRow &row, int64_t column, int64_t count, float *out) {
  if (row.storage == Storage::F32) {
    std::memcpy(out, static_cast<const float *>(row.data) + column, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (row.storage == Storage::BF16 || row.storage == Storage::I32) {
    for (int64_t c = column; c < column + count; ++c)
      *out++ = row.storage == Storage::BF16 ? bfloatToFloat(static_cast<const uint16_t *>(row.data)[c])
                                            : static_cast<float>(static_cast<const int32_t *>(row.data)[c]);
    return;
  }
  if (isInBlocks(row.storage))
    return withBlocks(row.storage, [&](auto storage) { readPieces<storage.value>(row.data, column, count, out); });
  for (int64_t c = column, end = column + count; c < end;) {
    int64_t group = c / row.group, groupEnd = std::min((group + 1) * row.group, end);
    float scale = halfToFloat(row.scales[group]), minimum = halfToFloat(row.minima[group]);
    for (; c < groupEnd; ++c)
      *out++ = scale * static_cast<float>(row.code(c)) + minimum;
  }
}

} // namespace mebp::format
