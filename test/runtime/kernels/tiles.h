// SPDX-License-Identifier: Apache-2.0
//
// What AMX's tile registers do, on any machine: an imitation that computes, and one that counts.
#pragma once

#include "format/half.h"

#include <atomic>
#include <cstdint>
#include <cstring>

namespace mebp::cpu::test {

// Eight registers of 16 rows of 64 bytes, and what Intel's manual says of each instruction.
struct ImitatedTiles {
  static inline thread_local unsigned char tiles[8][16][64];

  static void begin() {}
  static void end() {}
  static void space() {}

  template <int tile> static void zero() { std::memset(tiles[tile], 0, sizeof(tiles[tile])); }
  template <int tile> static void load(const void *from, int64_t stride) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(tiles[tile][row], static_cast<const unsigned char *>(from) + row * stride, 64);
  }
  template <int tile> static void store(void *to, int64_t stride) {
    for (int row = 0; row < 16; ++row)
      std::memcpy(static_cast<unsigned char *>(to) + row * stride, tiles[tile][row], 64);
  }
  template <int sum, int left, int right> static void multiplyAdd() {
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < 16; ++k)
        for (int n = 0; n < 16; ++n)
          for (int i = 0; i < 2; ++i)
            at<float>(sum, m, n) += number(left, m, 2 * k + i) * number(right, k, 2 * n + i);
  }

private:
  template <typename T> static T &at(int tile, int row, int column) {
    return reinterpret_cast<T *>(tiles[tile][row])[column];
  }
  static float number(int tile, int row, int column) { return format::bfloatToFloat(at<uint16_t>(tile, row, column)); }
};

// Only counts, so that calls of real sizes take no time; sums stay what they are.
struct CountedTiles {
  static inline std::atomic<int64_t> sumLoads, factorLoads, stores, products, spaces;

  static void reset() { sumLoads = factorLoads = stores = products = spaces = 0; }
  static void begin() {}
  static void end() {}
  static void space() { ++spaces; }

  template <int tile> static void zero() {}
  template <int tile> static void load(const void *, int64_t) { ++(tile < 4 ? sumLoads : factorLoads); }
  template <int tile> static void store(void *, int64_t) { ++stores; }
  template <int sum, int left, int right> static void multiplyAdd() { ++products; }
};

} // namespace mebp::cpu::test
