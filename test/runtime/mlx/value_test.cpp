// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/value.h"

#include <gtest/gtest.h>
#include <mlx/device.h>
#include <mlx/transforms.h>
#include <mlx/utils.h>

#include "format/half.h"
#include "format/random.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

// As a GPU multiplies: tiles of one row, of some that do not divide the matrix, and the whole of it.
TEST(MlxValue, ProductsInTilesAreThoseOfTheWhole) {
  const mx::StreamContext here(mx::Device{mx::Device::cpu});
  constexpr int rows = 21, columns = 37, groups = 2;
  std::vector<unsigned char> codes(rows * groups * 32);
  std::vector<uint16_t> scales(rows * groups), minima(rows * groups);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<unsigned char>(format::randomBits(3, 0, i));
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = format::floatToHalf(0.004f + 0.0001f * static_cast<float>(i));
    minima[i] = format::floatToHalf(-0.5f);
  }
  const Value matrix = wrap(codes.data(), scales.data(), minima.data(), format::INT8, rows, columns);
  const array x = mx::sin(mx::reshape(mx::arange(0.0f, 5.0f * rows), {5, rows}));
  const array whole = mx::matmul(x, numbersOf(matrix));
  const array narrow = mx::astype(x, mx::bfloat16), y = mx::sin(mx::reshape(mx::arange(0.0f, 5.0f * columns), {5, -1})),
              wholeOfY = mx::matmul(y, mx::transpose(numbersOf(matrix)));
  auto errorOf = [](const array &actual, const array &expected) {
    return mx::sqrt(mx::sum(mx::square(actual - expected)) / mx::sum(mx::square(expected))).item<float>();
  };
  for (int most : {1, 4 * columns, rows * columns}) {
    EXPECT_LT(errorOf(productInTiles(x, matrix, most), whole), 1e-6f) << most;
    constexpr float rounded = 1.0f / 128; // two factors and sums, by 2^-9 each
    EXPECT_LT(errorOf(narrowProduct(narrow, matrix, false, most), whole), rounded) << most;
    EXPECT_LT(errorOf(narrowProduct(mx::astype(y, mx::bfloat16), matrix, true, most), wholeOfY), rounded) << most;
  }
}

} // namespace mebp::mlx
