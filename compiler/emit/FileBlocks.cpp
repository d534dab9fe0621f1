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
  const bool isByte = type.heldBy == format::WeightFormat::Int8;
  const bool hasMinima = type.bytes == 4 + (isByte ? type.numbers : type.numbers / 2);
  for (uint64_t block = 0; block < count; ++block, blocks += type.bytes) {
    scales[block] = readHalf(blocks);
    minima[block] = hasMinima ? readHalf(blocks + 2) : times(scales[block], isByte ? -128.0f : -8.0f);
    const unsigned char *codes = blocks + (hasMinima ? 4 : 2);
    if (!isByte)
      storeNibbles(codes, data + block * type.numbers / 2);
    else
      for (uint64_t i = 0; i < type.numbers; ++i) // with a sign, or not
        data[block * type.numbers + i] = static_cast<unsigned char>(hasMinima ? codes[i] : codes[i] ^ 0x80);
  }
}

} // namespace mebp
