// SPDX-License-Identifier: Apache-2.0
//
// How AMX's tiles are put together, on any machine: with an imitation of its registers.
#include "support.h"

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
  static inline thread_local unsigned char tiles[8][16][64];

  static void begin() {}
  static void end() {}

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
  for (int64_t depth : {32, 64, 160})
    for (bool adds : {false, true}) {
      const int64_t leftStride = depth + 6, sumsStride = amx::width + 16;
      std::vector<uint16_t> left(amx::tileRows * leftStride), panel(depth * amx::width);
      for (auto *values : {&left, &panel})
        for (uint16_t &value : *values)
          value = format::floatToBfloat(static_cast<float>(generator() % 17) - 8.0f);
      std::vector<float> sums(amx::tileRows * sumsStride, -1.0f);
      amx::multiply<Imitation>(amx::tileRows, depth, left.data(), leftStride, panel.data(), sums.data(), sumsStride,
                               adds);
      for (int64_t r = 0; r < amx::tileRows; ++r)
        for (int64_t c = 0; c < sumsStride; ++c) {
          float expected = adds || c >= amx::width ? -1.0f : 0.0f;
          for (int64_t d = 0; d < depth && c < amx::width; ++d)
            expected += format::bfloatToFloat(left[r * leftStride + d]) *
                        format::bfloatToFloat(panel[(d / 2 * amx::width + c) * 2 + d % 2]);
          ASSERT_EQ(sums[r * sumsStride + c], expected) << depth << ", " << r << ", " << c;
        }
    }
}

#if defined(__x86_64__) // whose vectors expand the panels
// Whole tiles and units of 32 of the depth are what only AMX asks for. All that is around products is the same as with
// dots, and so are the factors: only the order of sums differs.
TEST(Amx, KernelsByTilesAgreeWithThoseByDots) {
  if (!findBf16Products(InstructionSet::Avx512Bf16))
    GTEST_SKIP() << "this CPU has no AVX-512 with bf16";
  constexpr Bf16Products tiles = amx::productsBy<Imitation>();
  auto expectSame = [&](test::CallSpec spec) {
    std::vector<test::Value> expected = test::run(spec, InstructionSet::Avx512Bf16);
    for (int threads : {1, 2}) {
      std::vector<test::Value> actual = test::run(spec, InstructionSet::Avx512Bf16, threads, &tiles);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(test::distance(actual[i].elements(), expected[i].elements()), 2e-6) << spec.name << ", result " << i;
    }
  };
  struct Shape {
    int64_t rows, inputs, outputs;
  };
  for (Shape shape : {Shape{5, 40, 40}, {33, 65, 97}, {70, 300, 33}, {129, 1100, 140}, {40, 31, 300}}) {
    test::Value x = test::Value::random(shape.rows, shape.inputs, 1).stored(Storage::BF16);
    test::Value dy = test::Value::random(shape.rows, shape.outputs, 2);
    test::Value w = test::Value::weight(shape.outputs, shape.inputs, Storage::Int4, 3);
    test::Value y = test::Value::constant(shape.rows, shape.outputs, 0);
    test::Value dx = test::Value::constant(shape.rows, shape.inputs, 0);
    Attributes narrow;
    narrow.narrow = true;
    expectSame({"linear", {x, w, {}, dy}, {y}});
    expectSame({"linear_input_gradient", {dy.stored(Storage::BF16), w, {}}, {dx}});
    expectSame({"linear_input_gradient", {dy, w, x.stored(Storage::F32)}, {dx}, narrow});
  }
}

#endif
