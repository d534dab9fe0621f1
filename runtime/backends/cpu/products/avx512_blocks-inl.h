// SPDX-License-Identifier: Apache-2.0
//
// Pieces of rows in blocks (format/blocks.h) in bf16, with the bits of format::expandPiece, rounded. A code of four or
// five bits is looked up in a table of all numbers that codes of its piece stand for. Included after all other headers.
#pragma once

#include "format/blocks.h"

#include <cstring>

#include <hwy/base.h>
#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::avx512 {

using format::Storage;

inline __m512i round(__m512 low, __m512 high) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)); }

struct TwoRows {
  __m512i first, second;
};

inline __m256i load32(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }

// Low bits of each element are a code of the piece. What is above them, a look-up ignores, or the caller masks.
inline __m512i shiftedCodes(const uint8_t *bytes, int64_t shift) {
  return _mm512_srl_epi16(_mm512_cvtepu8_epi16(load32(bytes)), _mm_cvtsi64_si128(shift));
}
inline __m512i codesInHalves(const uint8_t (&bytes)[16]) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
  return _mm512_cvtepu8_epi16(_mm256_set_m128i(_mm_srli_epi16(both, 4), both));
}
inline __m512i codesOf(const format::BlockQ4K &block, int64_t piece) {
  return shiftedCodes(block.codes + piece / 2 * 32, piece % 2 * 4);
}
inline __m512i codesOf(const format::BlockQ5K &block, int64_t piece) {
  const __m512i fifth = _mm512_slli_epi16(shiftedCodes(block.fifth, piece), 4);
  constexpr int secondWhereFirst = 0xCA;
  return _mm512_ternarylogic_epi32(_mm512_set1_epi16(15), shiftedCodes(block.codes + piece / 2 * 32, piece % 2 * 4),
                                   fifth, secondWhereFirst);
}
template <typename Block> inline __m512i fiveBitCodes(const Block &block) {
  uint32_t fifth;
  std::memcpy(&fifth, block.fifth, sizeof fifth);
  const __m512i codes = _mm512_and_si512(codesInHalves(block.codes), _mm512_set1_epi16(15));
  return _mm512_mask_add_epi16(codes, fifth, codes, _mm512_set1_epi16(16));
}
inline __m512i codesOf(const format::BlockQ50 &block, int64_t) { return fiveBitCodes(block); }
inline __m512i codesOf(const format::BlockQ51 &block, int64_t) { return fiveBitCodes(block); }
inline __m512i codesOf(const format::BlockMXFP4 &block, int64_t) { return codesInHalves(block.codes); }

// A number is scale * code + minimum.
struct PieceFactors {
  __m512 scale, minimum;

  __m512 of(__m512 codes) const { return _mm512_fmadd_ps(codes, scale, minimum); }
};
inline PieceFactors factors(float scale, float minimum) { return {_mm512_set1_ps(scale), _mm512_set1_ps(minimum)}; }

template <typename Block> inline PieceFactors factorsOfGroup(const Block &block, int64_t piece) {
  const format::GroupFactors group = format::factorsOf(block.groups, piece);
  return factors(_cvtsh_ss(block.scale) * group.scale, -(_cvtsh_ss(block.low) * group.low));
}
inline PieceFactors factorsOf(const format::BlockQ4K &block, int64_t piece) { return factorsOfGroup(block, piece); }
inline PieceFactors factorsOf(const format::BlockQ5K &block, int64_t piece) { return factorsOfGroup(block, piece); }
inline PieceFactors factorsOf(const format::BlockQ50 &block, int64_t) {
  return factors(_cvtsh_ss(block.scale), format::noMinimum);
}
inline PieceFactors factorsOf(const format::BlockQ51 &block, int64_t) {
  return factors(_cvtsh_ss(block.scale), _cvtsh_ss(block.low));
}
inline PieceFactors factorsOf(const format::BlockMXFP4 &block, int64_t) {
  return factors(format::scaleOf(block), format::noMinimum);
}

// What the first sixteen codes stand for, before their factors.
template <Storage storage> inline __m512 firstCodes() {
  if constexpr (storage == Storage::MXFP4)
    return _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const __m512 all = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return storage == Storage::Q50 ? _mm512_sub_ps(all, _mm512_set1_ps(16)) : all;
}

inline __m512i roundPiece(const uint16_t *halves) {
  return round(_mm512_cvtph_ps(load32(halves)), _mm512_cvtph_ps(load32(halves + 16)));
}
inline __m512i roundPiece(const format::BlockQ6K &block, int64_t piece) {
  const int64_t half = piece / 4, quarter = piece % 4;
  const __m256i codes = load32(block.codes + 64 * half + 32 * (quarter % 2)), upper = load32(block.upper + 32 * half);
  const __m256i low = _mm256_srlv_epi32(codes, _mm256_set1_epi32(static_cast<int>(quarter / 2 * 4)));
  const __m256i high = _mm256_rolv_epi32(upper, _mm256_set1_epi32(static_cast<int>(4 - 2 * quarter))); // to bits 4, 5
  constexpr int secondWhereFirst = 0xCA;
  const __m256i both = _mm256_ternarylogic_epi32(_mm256_set1_epi8(15), low, high, secondWhereFirst);
  const __m256i signedCodes = _mm256_sub_epi8(_mm256_and_si256(both, _mm256_set1_epi8(63)), _mm256_set1_epi8(32));
  const float scale = _cvtsh_ss(block.scale);
  auto ofHalf = [&](__m128i bytes, int8_t factor) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), _mm512_set1_ps(scale * factor));
  };
  return round(ofHalf(_mm256_castsi256_si128(signedCodes), block.groups[2 * piece]),
               ofHalf(_mm256_extracti128_si256(signedCodes, 1), block.groups[2 * piece + 1]));
}

// The piece from `column` on of two rows.
template <Storage storage> inline TwoRows roundPieces(const uint8_t *first, const uint8_t *second, int64_t column) {
  if constexpr (storage == Storage::F16) {
    return {roundPiece(reinterpret_cast<const uint16_t *>(first) + column),
            roundPiece(reinterpret_cast<const uint16_t *>(second) + column)};
  } else {
    using Block = typename format::BlockOf<storage>::Type;
    constexpr auto numbers = static_cast<int64_t>(format::numbersOfBlock(storage));
    const Block &one = reinterpret_cast<const Block *>(first)[column / numbers];
    const Block &other = reinterpret_cast<const Block *>(second)[column / numbers];
    const int64_t piece = column % numbers / format::pieceSize;
    if constexpr (storage == Storage::Q6K) {
      return {roundPiece(one, piece), roundPiece(other, piece)};
    } else {
      const PieceFactors mine = factorsOf(one, piece), others = factorsOf(other, piece);
      const __m512i codes = codesOf(one, piece), otherCodes = codesOf(other, piece);
      const __m512 low = firstCodes<storage>(), high = _mm512_add_ps(low, _mm512_set1_ps(16));
      if constexpr (storage != Storage::Q4K && storage != Storage::MXFP4)
        return {_mm512_permutexvar_epi16(codes, round(mine.of(low), mine.of(high))),
                _mm512_permutexvar_epi16(otherCodes, round(others.of(low), others.of(high)))};
      // Sixteen numbers each: one table of both, and the fifth bit says whose.
      const __m512i table = round(mine.of(low), others.of(low)), whose = _mm512_set1_epi16(16);
      return {_mm512_permutexvar_epi16(_mm512_andnot_si512(whose, codes), table),
              _mm512_permutexvar_epi16(_mm512_or_si512(otherCodes, whose), table)};
    }
  }
}

} // namespace mebp::cpu::avx512

HWY_POP_ATTRIBUTES
