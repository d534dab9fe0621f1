// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/optim/lazy_refresh.h"

using namespace mebp;

namespace {

// What is kept of a matrix whose first vector turns by one angle after another.
struct Turning {
  explicit Turning(format::TrainedShape shape)
      : shape(shape), leading(format::smallerSide(shape.rows, shape.columns)),
        projector(shape.rank * leading.size(), 0.5f) {}

  void refresh(uint64_t stepsDone, double cosine, double sign = 1) {
    angle += std::acos(cosine);
    const bool isOnRight = format::isProjectedOnRight(shape.rows, shape.columns);
    for (uint64_t i = 0; i < leading.size(); ++i) {
      const double value = i == 0 ? std::cos(angle) : i == 1 ? std::sin(angle) : 0;
      projector[isOnRight ? i : i * shape.rank] = static_cast<float>(sign * value);
    }
    kept().take(shape, stepsDone, projector.data(), 10, 0.4);
  }
  LazyRefresh kept() { return {numbers, similarities, leading.data()}; }
  int64_t period() const { return numbers[format::Period]; }

  format::TrainedShape shape;
  int64_t numbers[format::PeriodNumbers] = {};
  float similarities[format::similaritiesKept] = {};
  std::vector<float> leading, projector;
  double angle = 0;
};

TEST(LazyRefresh, APeriodDoublesWhereTheLastFiveSimilaritiesAreHighInTheMean) {
  for (const format::TrainedShape &shape : {format::TrainedShape{9, 5, 3}, {5, 9, 3}}) {
    Turning turning(shape);
    EXPECT_TRUE(turning.kept().isDue(0));
    turning.refresh(0, 1);
    EXPECT_FALSE(turning.kept().isDue(5));
    EXPECT_TRUE(turning.kept().isDue(10));
    const struct {
      double cosine;
      int64_t period;
    } sequence[] = {{0.9, 10}, {0.9, 10}, {0.0, 10}, {0.0, 10}, {0.1, 10}, // a mean of 0.38
                    {0.9, 10}, {0.9, 10}, {0.0, 10},                       // 0.38 again
                    {0.3, 20},                                             // 0.44
                    {0.0, 40}, // 0.42: it doubles at each refresh while the mean is high
                    {0.0, 40}, {0.0, 40}};
    uint64_t steps = 0;
    for (const auto &[cosine, period] : sequence) {
      turning.refresh(steps += 10, cosine);
      EXPECT_EQ(turning.period(), period) << "after " << steps;
    }
    EXPECT_EQ(turning.numbers[format::Refreshes], 13);
    EXPECT_TRUE(turning.kept().isDue(160));
    EXPECT_FALSE(turning.kept().isDue(150));
  }
}

TEST(LazyRefresh, TheSignOfAVectorDoesNotCount) {
  Turning turning({9, 5, 3});
  for (uint64_t i = 0; i < 6; ++i)
    turning.refresh(10 * i, 1, i % 2 ? -1 : 1);
  EXPECT_EQ(turning.period(), 20);
}

TEST(LazyRefresh, OneThatIsMadeAgainForAStepDoesNotCount) {
  Turning turning({9, 5, 3});
  for (uint64_t i = 0; i < 6; ++i)
    for (int again = 0; again < 3; ++again)
      turning.refresh(10 * i, again ? 1 : i % 2 ? 0.1 : 0.2);
  EXPECT_EQ(turning.numbers[format::Refreshes], 6);
  EXPECT_EQ(turning.period(), 10);
}

// A saved state has them, whoever wrote it, and one of them is an index.
TEST(LazyRefresh, CountsThatNoRunLeavesAreTold) {
  constexpr int64_t most = INT64_MAX, least = INT64_MIN;
  const struct {
    int64_t numbers[format::PeriodNumbers];
    bool arePossible;
  } all[] = {{{0, 0, 0, 0}, true},          {{200, 7, 5, 1201}, true},   {{most, 1, 0, 1}, true},
             {{200, 7, 6, 1201}, false},    {{200, 7, -1, 1201}, false}, {{200, 7, least, 1201}, false},
             {{200, 7, most, 1201}, false}, {{-1, 7, 5, 1201}, false},   {{200, -1, 5, 1201}, false},
             {{200, most, 5, 1201}, false}, {{200, 7, 5, -1}, false}};
  for (const auto &[numbers, arePossible] : all)
    EXPECT_EQ(LazyRefresh::arePossible(numbers), arePossible)
        << numbers[0] << " " << numbers[1] << " " << numbers[2] << " " << numbers[3];
}

} // namespace
