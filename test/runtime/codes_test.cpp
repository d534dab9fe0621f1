// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/optim/codes.h"

using namespace mebp;

namespace {

struct Row {
  Row(format::Storage storage, uint64_t columns)
      : codes(format::rowBytesOf(storage, columns)), scales(format::groupsOf(storage, columns)), minima(scales.size()),
        out{storage, codes.data(), scales.data(), minima.data()}, columns(columns) {}

  std::vector<float> read() const {
    std::vector<float> values(columns);
    format::readRow(out.stored(), 0, static_cast<int64_t>(columns), values.data());
    return values;
  }
  float step(uint64_t column) const { return format::halfToFloat(scales[column / format::groupSize]); }
  float lowest(uint64_t column) const { return format::halfToFloat(minima[column / format::groupSize]); }

  std::vector<unsigned char> codes;
  std::vector<uint16_t> scales, minima;
  CodedRow out;
  uint64_t columns;
};

// Of many sizes, around something that is not zero.
std::vector<float> numbers(uint64_t count, float size, float middle) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = middle + size * std::sin(0.7f * static_cast<float>(i * i + 1));
  return values;
}

TEST(Codes, ANumberIsAtMostHalfAStepFromItsNearestCode) {
  for (const auto &[storage, largestCode] : {std::pair(format::Storage::Int4, 15), {format::Storage::Int8, 255}})
    for (uint64_t columns : {1, 31, 32, 33, 576})
      for (float size : {0.0f, 1e-6f, 1e-3f, 0.3f, 90.0f})
        for (float middle : {0.0f, -0.2f, 3.3f}) {
          const std::vector<float> values = numbers(columns, size, middle);
          Row row(storage, columns);
          roundToNearest(values.data(), columns, row.out);
          const std::vector<float> read = row.read();
          for (uint64_t i = 0; i < columns; ++i) {
            // A step is an f16 that covers the group from an f16 below it on.
            const float widest = (2 * size + std::fabs(middle + size) * 0x1p-9f) / static_cast<float>(largestCode);
            EXPECT_LE(row.step(i), widest * (1 + 0x1p-9f) + 0x1p-23f);
            EXPECT_LE(row.lowest(i), values[i]);
            EXPECT_LE(std::fabs(read[i] - values[i]), 0.5001f * row.step(i) + 1e-6f * std::fabs(values[i]));
          }
        }
}

TEST(Codes, RoundingAtRandomHasTheNumberAsItsMean) {
  constexpr uint64_t columns = 77, draws = 20000;
  const std::vector<float> values = numbers(columns, 0.3f, 0.05f);
  std::vector<double> sums(columns);
  Row row(format::Storage::Int8, columns);
  for (uint64_t seed = 0; seed < draws; ++seed) {
    roundAtRandom(values.data(), columns, seed, 1000, row.out);
    const std::vector<float> read = row.read();
    for (uint64_t i = 0; i < columns; ++i) {
      const float position = (values[i] - row.lowest(i)) / row.step(i), code = row.codes[i];
      EXPECT_TRUE(code == std::floor(position) || code == std::ceil(position)) << code << " for " << position;
      sums[i] += read[i];
    }
  }
  for (uint64_t i = 0; i < columns; ++i) // five deviations of a mean of draws between two neighbours
    EXPECT_NEAR(sums[i] / draws, values[i], 5 * 0.5 * row.step(i) / std::sqrt(double(draws))) << i;
}

TEST(Codes, AnElementDrawsByItsOwnNumber) {
  const std::vector<float> values = numbers(64, 0.3f, 0);
  Row whole(format::Storage::Int8, 64), again(format::Storage::Int8, 64), other(format::Storage::Int8, 64);
  roundAtRandom(values.data(), 64, 9, 0, whole.out);
  roundAtRandom(values.data(), 32, 9, 0, again.out);
  roundAtRandom(values.data() + 32, 32, 9, 32, again.out.from(32));
  EXPECT_EQ(whole.codes, again.codes);
  roundAtRandom(values.data(), 64, 10, 0, other.out);
  EXPECT_NE(whole.codes, other.codes);
}

TEST(Codes, WhatIsOnTheGridStaysThere) {
  Row row(format::Storage::Int8, 32), again(format::Storage::Int8, 32);
  std::vector<float> values(32);
  for (uint64_t i = 0; i < 32; ++i)
    values[i] = -1 + 0x1p-7f * static_cast<float>(i == 31 ? 255 : 8 * i);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    roundAtRandom(values.data(), 32, seed, 0, row.out);
    EXPECT_EQ(row.read(), values);
  }
}

TEST(Codes, WhatIsNotFiniteIsReadAsNoNumber) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values = numbers(64, 1, 0);
    values[40] = bad;
    Row row(format::Storage::Int8, 64);
    roundAtRandom(values.data(), 64, 0, 0, row.out);
    const std::vector<float> read = row.read();
    EXPECT_TRUE(std::isfinite(read[3]));
    EXPECT_TRUE(std::isnan(read[40]));
  }
}

} // namespace
