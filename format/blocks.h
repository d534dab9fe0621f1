// SPDX-License-Identifier: Apache-2.0
//
// Blocks of GGUF files, which weights.bin has byte for byte, and what their numbers are. All numbers are little-endian;
// `scale` and `low` are f16.
//
// A piece is 32 numbers that follow one another in a row, from a multiple of 32 on, and lies in one block. A number of
// it is scale * code + minimum. The product is exact in f32, so that a fused multiply-add gives the same bits.
#pragma once

#include "format/half.h"
#include "format/storage.h"

#include <cstddef>
#include <type_traits>

namespace mebp::format {

// 8 groups of 32: a number is scale * s[group] * code - low * l[group] with s and l of 6 bits.
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

// 16 groups of 16: a number is scale * s[group] * (code - 32) with s of 8 bits and a sign.
struct BlockQ6K {
  uint8_t codes[128]; // of each 128 numbers 64 bytes: the low 4 bits of the first 64, then of the others
  uint8_t upper[64];  // and 32 bytes: of number i the other 2 bits at i % 32, from bit 2 * (i / 32) on
  int8_t groups[16];
  uint16_t scale;
};

// Of 32 numbers. `codes`: the first half's in the low 4 bits; `fifth`: bit i is number i's.
struct BlockQ50 { // scale * (code - 16)
  uint16_t scale;
  uint8_t fifth[4], codes[16];
};
struct BlockQ51 { // scale * code + low
  uint16_t scale, low;
  uint8_t fifth[4], codes[16];
};
struct BlockMXFP4 { // 2^(exponent - 128) * what a code of E2M1 stands for, doubled
  uint8_t exponent, codes[16];
};

static_assert(sizeof(BlockQ4K) == bytesOf(Storage::Q4K, 256) && sizeof(BlockQ5K) == bytesOf(Storage::Q5K, 256) &&
              sizeof(BlockQ6K) == bytesOf(Storage::Q6K, 256) && sizeof(BlockQ50) == bytesOf(Storage::Q50, 32) &&
              sizeof(BlockQ51) == bytesOf(Storage::Q51, 32) && sizeof(BlockMXFP4) == bytesOf(Storage::MXFP4, 32));

constexpr int64_t pieceSize = 32;

struct Piece {
  int8_t codes[pieceSize];
  float scales[2], minima[2]; // of its halves
};

// Added to a product it changes nothing, not even the sign of a zero.
constexpr float noMinimum = -0.0f;

// What group j of eight multiplies scale and low by.
struct GroupFactors {
  float scale, low;
};
inline GroupFactors factorsOf(const uint8_t (&groups)[12], int64_t j) {
  if (j < 4)
    return {static_cast<float>(groups[j] & 63), static_cast<float>(groups[j + 4] & 63)};
  return {static_cast<float>((groups[j + 4] & 15) | (groups[j - 4] >> 6 << 4)),
          static_cast<float>((groups[j + 4] >> 4) | (groups[j] >> 6 << 4))};
}

inline void setBoth(Piece &out, float scale, float minimum) {
  out.scales[0] = out.scales[1] = scale;
  out.minima[0] = out.minima[1] = minimum;
}

template <typename Block> inline void setOfGroup(const Block &block, int64_t piece, Piece &out) {
  const GroupFactors factors = factorsOf(block.groups, piece);
  setBoth(out, halfToFloat(block.scale) * factors.scale, -(halfToFloat(block.low) * factors.low));
}

inline void unpack(const BlockQ4K &block, int64_t piece, Piece &out) {
  const uint8_t *codes = block.codes + piece / 2 * pieceSize;
  const int shift = piece % 2 * 4;
  for (int64_t i = 0; i < pieceSize; ++i)
    out.codes[i] = static_cast<int8_t>(codes[i] >> shift & 15);
  setOfGroup(block, piece, out);
}

inline void unpack(const BlockQ5K &block, int64_t piece, Piece &out) {
  const uint8_t *codes = block.codes + piece / 2 * pieceSize;
  const int shift = piece % 2 * 4;
  for (int64_t i = 0; i < pieceSize; ++i)
    out.codes[i] = static_cast<int8_t>((codes[i] >> shift & 15) | (block.fifth[i] >> piece & 1) << 4);
  setOfGroup(block, piece, out);
}

inline void unpack(const BlockQ6K &block, int64_t piece, Piece &out) {
  const int64_t half = piece / 4, quarter = piece % 4;
  const uint8_t *codes = block.codes + 64 * half + 32 * (quarter % 2), *upper = block.upper + 32 * half;
  const int shift = static_cast<int>(quarter / 2 * 4), upperShift = static_cast<int>(quarter * 2);
  for (int64_t i = 0; i < pieceSize; ++i)
    out.codes[i] = static_cast<int8_t>(((codes[i] >> shift & 15) | (upper[i] >> upperShift & 3) << 4) - 32);
  for (int64_t h = 0; h < 2; ++h) {
    out.scales[h] = halfToFloat(block.scale) * static_cast<float>(block.groups[2 * piece + h]);
    out.minima[h] = noMinimum;
  }
}

// 16 in byte i where bit i is set: eight at a time, each byte with the bit of its place alone, made 0x80 by an
// addition.
inline void spreadBits(const uint8_t (&bits)[4], uint8_t (&out)[pieceSize]) {
  for (int64_t b = 0; b < 4; ++b) {
    const uint64_t own = bits[b] * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t spread = ((own + 0x7F7F7F7F7F7F7F7Fu) & 0x8080808080808080u) >> 3;
    std::memcpy(out + 8 * b, &spread, sizeof spread);
  }
}

template <typename Block> inline void unpackFiveBits(const Block &block, int least, Piece &out) {
  uint8_t fifth[pieceSize];
  spreadBits(block.fifth, fifth);
  for (int64_t i = 0; i < pieceSize / 2; ++i) {
    out.codes[i] = static_cast<int8_t>(((block.codes[i] & 15) | fifth[i]) + least);
    out.codes[i + 16] = static_cast<int8_t>(((block.codes[i] >> 4) | fifth[i + 16]) + least);
  }
}

inline void unpack(const BlockQ50 &block, int64_t, Piece &out) {
  unpackFiveBits(block, -16, out);
  setBoth(out, halfToFloat(block.scale), noMinimum);
}

inline void unpack(const BlockQ51 &block, int64_t, Piece &out) {
  unpackFiveBits(block, 0, out);
  setBoth(out, halfToFloat(block.scale), halfToFloat(block.low));
}

inline float scaleOf(const BlockMXFP4 &block) {
  const uint32_t exponent = block.exponent;
  return bitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

inline void unpack(const BlockMXFP4 &block, int64_t, Piece &out) {
  constexpr int8_t doubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  for (int64_t i = 0; i < pieceSize / 2; ++i) {
    out.codes[i] = doubled[block.codes[i] & 15];
    out.codes[i + 16] = doubled[block.codes[i] >> 4];
  }
  setBoth(out, scaleOf(block), noMinimum);
}

template <Storage storage> struct BlockOf;
template <> struct BlockOf<Storage::Q50> {
  using Type = BlockQ50;
};
template <> struct BlockOf<Storage::Q51> {
  using Type = BlockQ51;
};
template <> struct BlockOf<Storage::Q4K> {
  using Type = BlockQ4K;
};
template <> struct BlockOf<Storage::Q5K> {
  using Type = BlockQ5K;
};
template <> struct BlockOf<Storage::Q6K> {
  using Type = BlockQ6K;
};
template <> struct BlockOf<Storage::MXFP4> {
  using Type = BlockMXFP4;
};

// The numbers of piece `number` of a row.
template <Storage storage> inline void expandPiece(const void *row, int64_t number, float *out) {
  if constexpr (storage == Storage::F16) {
    const auto *halves = static_cast<const uint16_t *>(row) + number * pieceSize;
    for (int64_t i = 0; i < pieceSize; ++i)
      out[i] = halfToFloat(halves[i]);
  } else {
    using Block = typename BlockOf<storage>::Type;
    constexpr int64_t pieces = static_cast<int64_t>(numbersOfBlock(storage)) / pieceSize;
    Piece piece;
    unpack(static_cast<const Block *>(row)[number / pieces], number % pieces, piece);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 16 * h; i < 16 * h + 16; ++i)
        out[i] = piece.scales[h] * static_cast<float>(piece.codes[i]) + piece.minima[h];
  }
}

// Calls body(a constant of its type), so that what follows asks for it once.
template <typename Body> inline void withBlocks(Storage storage, const Body &body) {
  switch (storage) {
  case Storage::F16:
    return body(std::integral_constant<Storage, Storage::F16>());
  case Storage::Q50:
    return body(std::integral_constant<Storage, Storage::Q50>());
  case Storage::Q51:
    return body(std::integral_constant<Storage, Storage::Q51>());
  case Storage::Q4K:
    return body(std::integral_constant<Storage, Storage::Q4K>());
  case Storage::Q5K:
    return body(std::integral_constant<Storage, Storage::Q5K>());
  case Storage::Q6K:
    return body(std::integral_constant<Storage, Storage::Q6K>());
  default:
    return body(std::integral_constant<Storage, Storage::MXFP4>());
  }
}

} // namespace mebp::format
