// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/FileBlocks.h"

#include "format/half.h"

#include <algorithm>
#include <cstring>

namespace mebp {

namespace {

uint16_t readHalf(const unsigned char *bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

uint16_t times(uint16_t half, float factor) { return format::floatToHalf(factor * format::halfToFloat(half)); }

/// 16 bytes, the first 16 numbers' codes in the low halves, become pairs of neighbours.
void storeNibbles(const unsigned char *codes, unsigned char *data) {
  for (int pair = 0; pair < 8; ++pair) {
    const unsigned char first = codes[2 * pair], second = codes[2 * pair + 1];
    data[pair] = static_cast<unsigned char>((first & 15) | (second & 15) << 4);
    data[pair + 8] = static_cast<unsigned char>((first >> 4) | (second >> 4) << 4);
  }
}

} // namespace

void storeBlocks(const format::FileType &type, const unsigned char *blocks, uint64_t columns, unsigned char *data,
                 uint16_t *scales, uint16_t *minima) {
  const uint64_t count = columns / type.numbers;
  if (!isQuantised(format::storageOf(type.heldBy))) {
    std::copy_n(blocks, count * type.bytes, data);
    return;
  }
  for (uint64_t block = 0; block < count; ++block, blocks += type.bytes) {
    scales[block] = readHalf(blocks);
    switch (type.heldBy) {
    case format::WeightFormat::Int8:
      minima[block] = times(scales[block], -128.0f);
      for (uint64_t i = 0; i < type.numbers; ++i)
        data[block * type.numbers + i] = static_cast<unsigned char>(blocks[2 + i] ^ 0x80); // from -128 on
      break;
    case format::WeightFormat::Int4:
      minima[block] = readHalf(blocks + 2);
      storeNibbles(blocks + 4, data + block * type.numbers / 2);
      break;
    default: // symmetric
      minima[block] = times(scales[block], -8.0f);
      storeNibbles(blocks + 2, data + block * type.numbers / 2);
    }
  }
}

} // namespace mebp
