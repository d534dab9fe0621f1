// SPDX-License-Identifier: Apache-2.0
//
// How the numbers of a matrix are stored. Quantised rows are padded to whole groups: docs/format.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "format/half.h"

namespace mebp::format {

enum ElementType : int; // of program.proto

// As ElementType numbers them.
enum class Storage : uint8_t { Unknown, F32, BF16, I32, Int4, Int8 };

constexpr uint64_t groupSize = 32; // of a quantised row: one f16 scale and minimum for so many codes

constexpr Storage storageOf(ElementType element) {
  return element > 0 && element <= static_cast<int>(Storage::Int8) ? static_cast<Storage>(element) : Storage::Unknown;
}
constexpr ElementType elementOf(Storage storage) { return static_cast<ElementType>(storage); }

constexpr const char *nameOf(Storage storage) {
  constexpr const char *names[] = {"unknown", "f32", "bf16", "i32", "int4", "int8"};
  return names[static_cast<int>(storage)];
}

constexpr bool isQuantised(Storage storage) { return storage == Storage::Int4 || storage == Storage::Int8; }
// What activations are stored as, and kernels may write.
constexpr bool isFloat(Storage storage) { return storage == Storage::F32 || storage == Storage::BF16; }
// What weights are stored as.
constexpr bool isWeight(Storage storage) { return isFloat(storage) || isQuantised(storage); }

// Of so many elements; of Int4, an even number.
constexpr uint64_t bytesOf(Storage storage, uint64_t elements) {
  constexpr uint64_t bits[] = {0, 32, 16, 32, 4, 8};
  return elements * bits[static_cast<int>(storage)] / 8;
}
// Of a row.
constexpr uint64_t groupsOf(Storage storage, uint64_t columns) {
  return isQuantised(storage) ? (columns + groupSize - 1) / groupSize : 0;
}
// Elements from row to row.
constexpr uint64_t strideOf(Storage storage, uint64_t columns) {
  return isQuantised(storage) ? groupsOf(storage, columns) * groupSize : columns;
}
constexpr uint64_t rowBytesOf(Storage storage, uint64_t columns) {
  return bytesOf(storage, strideOf(storage, columns));
}

// Of a weight or a value of program.proto.
struct StoredSize {
  uint64_t dataBytes;  // of all rows
  uint64_t groupBytes; // of the scales, and again of the minima
};
template <typename Matrix> constexpr StoredSize storedSize(const Matrix &matrix) {
  Storage storage = storageOf(matrix.element());
  return {matrix.rows() * rowBytesOf(storage, matrix.columns()),
          matrix.rows() * groupsOf(storage, matrix.columns()) * sizeof(uint16_t)};
}

// A row of a matrix, or of a slice of one that begins with a group.
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
  for (int64_t c = column, end = column + count; c < end;) {
    int64_t group = c / row.group, groupEnd = std::min((group + 1) * row.group, end);
    float scale = halfToFloat(row.scales[group]), minimum = halfToFloat(row.minima[group]);
    for (; c < groupEnd; ++c)
      *out++ = scale * static_cast<float>(row.code(c)) + minimum;
  }
}

} // namespace mebp::format
