// SPDX-License-Identifier: Apache-2.0
//
// How AMX's tiles are put together, on any machine: with an imitation of its registers.
#include "runtime/backends/cpu/products/amx-inl.h"

#include "format/half.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace mebp;
using namespace mebp::cpu;

namespace {

// Eight registers of 16 rows of 64 bytes, and what Intel's manual says of each instruction.
struct Imitation {
  static inline unsigned char tiles[8][16][64];

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

} // namespace

TEST(Amx, MultipliesATile) {
  std::mt19937 generator(1);
  for (int64_t depth : {32, 64, 160}) {
    const int64_t leftStride = depth + 6;
    std::vector<uint16_t> left(amx::tileRows * leftStride), panel(depth * amx::width);
    for (auto *values : {&left, &panel})
      for (uint16_t &value : *values)
        value = format::floatToBfloat(static_cast<float>(generator() % 17) - 8.0f);
    std::vector<float> tile(amx::tileRows * amx::width, -1.0f);
    amx::multiplyTile<Imitation>(depth, left.data(), leftStride, panel.data(), tile.data());
    for (int64_t r = 0; r < amx::tileRows; ++r)
      for (int64_t c = 0; c < amx::width; ++c) {
        float expected = 0;
        for (int64_t d = 0; d < depth; ++d)
          expected += format::bfloatToFloat(left[r * leftStride + d]) *
                      format::bfloatToFloat(panel[(d / 2 * amx::width + c) * 2 + d % 2]);
        ASSERT_EQ(tile[r * amx::width + c], expected) << depth << ", " << r << ", " << c;
      }
  }
}
