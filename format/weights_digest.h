// SPDX-License-Identifier: Apache-2.0
//
// What Bundle.weights_crc32 is a checksum of. Weights follow one another as the program lists them, each in batches of
// rows: of a batch first the data, then the scales, then the minima. What lies between tensors does not count.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "format/storage.h"

namespace mebp::format {

constexpr uint64_t batchValues = 1 << 18;

// In a batch of this weight; the last one may have fewer.
template <typename Weight> constexpr uint64_t batchRowsOf(const Weight &weight) {
  return std::max<uint64_t>(std::min<uint64_t>(batchValues / weight.columns(), weight.rows()), 1);
}

struct FilePart {
  uint64_t offset, bytes;
};

// Where data, scales and minima of some rows lie in weights.bin.
template <typename Weight>
constexpr std::array<FilePart, 3> partsOfRows(const Weight &weight, uint64_t first, uint64_t count) {
  const Storage storage = storageOf(weight.element());
  const uint64_t data = rowBytesOf(storage, weight.columns()), groups = groupsOf(storage, weight.columns()) * 2;
  return {{{weight.data_offset() + first * data, count * data},
           {weight.scales_offset() + first * groups, count * groups},
           {weight.minima_offset() + first * groups, count * groups}}};
}

} // namespace mebp::format
