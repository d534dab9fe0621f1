// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 256 numbers in GGUF files, as their readers expand them. All numbers are little-endian; `half` is f16.
//
// Q4_K and Q5_K: 8 groups of 32, a number is scale * s[group] * code - low * l[group] with s and l of 6 bits.
// Q6_K: 16 groups of 16, a number is scale * s[group] * (code - 32) with s of 8 bits and a sign.
#pragma once

#include <cstdint>

namespace mebp::gguf {

constexpr unsigned blockNumbers = 256;

struct BlockQ4K {
  uint16_t scale, low;
  uint8_t groups[12]; // of the first four s, then l, in the low 6 bits; the other four take what is left and four more
  uint8_t codes[128]; // of each 64 numbers 32 bytes: the first half's codes in the low 4 bits
};

struct BlockQ5K {
  uint16_t scale, low;
  uint8_t groups[12];
  uint8_t fifth[32];  // bits: of number i at i % 32, bit i / 32
  uint8_t codes[128]; // the other four
};

struct BlockQ6K {
  uint8_t codes[128]; // of each 128 numbers 64 bytes: the low 4 bits of the first 64, then of the others
  uint8_t upper[64];  // and 32 bytes: of number i the other 2 bits at i % 32, from bit 2 * (i / 32) on
  int8_t groups[16];
  uint16_t scale;
};

static_assert(sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210);

// The block that loses least of 256 numbers in the sum of squares, of those that are searched. What f16 cannot hold
// gives a block with a scale that is not finite.
void quantizeBlock(const float *values, BlockQ4K &block);
void quantizeBlock(const float *values, BlockQ5K &block);
void quantizeBlock(const float *values, BlockQ6K &block);

} // namespace mebp::gguf
