// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/draw_blocks.h"

#include "format/blocks.h"
#include "format/random.h"

#include <cstddef>

namespace mebp::self_test {

using namespace format;

namespace {

// From the f16 `least` up to four times as much, of either sign.
void putHalf(unsigned char *to, uint32_t least, uint64_t drawn) {
  const auto half = static_cast<uint16_t>((least + drawn % 0x0800) | (drawn >> 32 & 1) << 15);
  std::memcpy(to, &half, sizeof half);
}

void setScales(Storage storage, unsigned char *block, uint64_t drawn, uint64_t also) {
  constexpr uint32_t part4096 = 0x0C00, part1024 = 0x1400, part256 = 0x1C00, part16 = 0x2C00, quarter = 0x3400;
  switch (storage) {
  case Storage::MXFP4:
    block[offsetof(BlockMXFP4, exponent)] = static_cast<unsigned char>(124 + drawn % 4);
    return;
  case Storage::Q6K:
    return putHalf(block + offsetof(BlockQ6K, scale), part4096, drawn);
  case Storage::Q50:
    return putHalf(block + offsetof(BlockQ50, scale), part16, drawn);
  case Storage::Q51:
    putHalf(block + offsetof(BlockQ51, scale), part16, drawn);
    return putHalf(block + offsetof(BlockQ51, low), quarter, also);
  default:
    static_assert(offsetof(BlockQ4K, scale) == offsetof(BlockQ5K, scale) &&
                  offsetof(BlockQ4K, low) == offsetof(BlockQ5K, low));
    putHalf(block + offsetof(BlockQ4K, scale), part1024, drawn);
    return putHalf(block + offsetof(BlockQ4K, low), part256, also);
  }
}

} // namespace

void drawBlocks(Storage storage, unsigned char *data, uint64_t bytes, uint64_t stream) {
  uint64_t index = 0;
  auto next = [&] { return randomBits(9, stream, index++); };
  if (storage == Storage::F16) {
    for (uint64_t at = 0; at < bytes; at += sizeof(uint16_t))
      putHalf(data + at, 0x3400, next());
    return;
  }
  for (uint64_t i = 0; i < bytes; ++i)
    data[i] = static_cast<unsigned char>(next());
  const uint64_t size = traitsOf(storage).bytes;
  for (uint64_t at = 0; at < bytes; at += size) {
    const uint64_t drawn = next();
    setScales(storage, data + at, drawn, next());
  }
}

} // namespace mebp::self_test
