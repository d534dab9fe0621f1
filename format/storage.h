// SPDX-License-Identifier: Apache-2.0
//
// How the numbers of a matrix are stored. Quantised rows are padded to whole groups: docs/format.md.
#pragma once

#include <cstdint>

namespace mebp::format {

enum ElementType : int; // of program.proto

// As ElementType numbers them. From F16 on: as GGUF files have them, format/blocks.h.
enum class Storage : uint8_t { Unknown, F32, BF16, I32, Int4, Int8, F16, Q50, Q51, Q4K, Q5K, Q6K, MXFP4 };

// `bytes` have so many numbers.
struct StorageTraits {
  const char *name;
  uint64_t numbers, bytes;
};
constexpr StorageTraits traitsOf(Storage storage) {
  constexpr StorageTraits traits[] = {{"unknown", 1, 0}, {"f32", 1, 4},      {"bf16", 1, 2},     {"i32", 1, 4},
                                      {"int4", 2, 1},    {"int8", 1, 1},     {"f16", 32, 64},    {"q5_0", 32, 22},
                                      {"q5_1", 32, 24},  {"q4_k", 256, 144}, {"q5_k", 256, 176}, {"q6_k", 256, 210},
                                      {"mxfp4", 32, 17}};
  return traits[static_cast<int>(storage)];
}

constexpr uint64_t groupSize = 32; // of a quantised row: one f16 scale and minimum for so many codes

constexpr Storage storageOf(ElementType element) {
  return element > 0 && element <= static_cast<int>(Storage::MXFP4) ? static_cast<Storage>(element) : Storage::Unknown;
}
constexpr ElementType elementOf(Storage storage) { return static_cast<ElementType>(storage); }

constexpr const char *nameOf(Storage storage) { return traitsOf(storage).name; }

// With scales and minima of their own.
constexpr bool isQuantised(Storage storage) { return storage == Storage::Int4 || storage == Storage::Int8; }
// In blocks, of which a row has whole ones.
constexpr bool isInBlocks(Storage storage) { return storage >= Storage::F16; }
constexpr uint64_t numbersOfBlock(Storage storage) { return traitsOf(storage).numbers; }
// Each number by itself.
constexpr bool isPlain(Storage storage) { return !isQuantised(storage) && !isInBlocks(storage); }
// What activations are stored as, and kernels may write.
constexpr bool isFloat(Storage storage) { return storage == Storage::F32 || storage == Storage::BF16; }
// What weights are stored as.
constexpr bool isWeight(Storage storage) { return isFloat(storage) || isQuantised(storage) || isInBlocks(storage); }
// Whether a row may have so many.
constexpr bool holdsColumns(Storage storage, uint64_t columns) {
  return !isInBlocks(storage) || columns % numbersOfBlock(storage) == 0;
}

// Of so many elements; of Int4, an even number, and of what is in blocks, those of whole ones.
constexpr uint64_t bytesOf(Storage storage, uint64_t elements) {
  const StorageTraits traits = traitsOf(storage);
  return elements * traits.bytes / traits.numbers;
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

} // namespace mebp::format
