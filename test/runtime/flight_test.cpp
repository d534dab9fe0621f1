// SPDX-License-Identifier: Apache-2.0
//
// Samples of a step on several threads: one computes at a time, sums are in the samples' order, and a failure ends all.
#include "runtime/train/flight.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/allocations.h"

namespace mebp {
namespace {

constexpr uint32_t blocks = 5;

// Waits for another one, as for a server.
Status sleepFor(uint32_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  return Status();
}

TEST(Flight, AddsInTheSamplesOrderAndComputesOneAtATime) {
  constexpr uint32_t samples = 11;
  for (uint32_t lanes : {1u, 2u, 4u, 16u}) {
    Flight flight;
    ASSERT_TRUE(flight.create(lanes, blocks).ok());
    std::mt19937 random(lanes);
    std::vector<uint32_t> waits(samples * blocks);
    for (uint32_t &wait : waits)
      wait = random() % 300;
    std::atomic<int> computing{0};
    std::atomic<bool> wasAlone{true};
    std::vector<std::vector<uint32_t>> added(blocks);
    auto work = [&](uint32_t, uint32_t sample) {
      if (sample % 4 == 1)
        return Status(); // has nothing to add
      const uint32_t place = flight.lineUp();
      for (uint32_t block = 0; block < blocks; ++block) {
        if (Status status = flight.away([&] { return sleepFor(waits[sample * blocks + block]); }); !status.ok())
          return status;
        if (Status status = flight.enter(block, place); !status.ok())
          return status;
        wasAlone = wasAlone && computing.fetch_add(1) == 0;
        added[block].push_back(sample);
        computing.fetch_sub(1);
        flight.leave(block);
      }
      return Status();
    };
    for (int step = 0; step < 3; ++step) {
      for (std::vector<uint32_t> &of : added)
        of.clear();
      ASSERT_TRUE(flight.run(samples, std::ref(work)).ok());
      for (const std::vector<uint32_t> &of : added)
        EXPECT_EQ(of, (std::vector<uint32_t>{0, 2, 3, 4, 6, 7, 8, 10})) << lanes;
    }
    EXPECT_TRUE(wasAlone);
  }
}

// Until it is so, or for far too long.
template <typename Condition> Status waitUntil(const Condition &isSo) {
  for (int turn = 0; turn < 20'000 && !isSo(); ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return Status();
}

TEST(Flight, SeveralAreUnderWayAtOnce) {
  Flight flight;
  ASSERT_TRUE(flight.create(4, blocks).ok());
  std::atomic<int> waiting{0}, most{0};
  auto work = [&](uint32_t, uint32_t) {
    most = std::max(most.load(), ++waiting);
    Status status = flight.away([&] { return waitUntil([&] { return most == 4; }); });
    --waiting;
    return status;
  };
  EXPECT_TRUE(flight.run(8, std::ref(work)).ok());
  EXPECT_EQ(most, 4);
  EXPECT_TRUE(flight.run(2, std::ref(work)).ok());
}

TEST(Flight, TellsTheFirstSampleThatFailedAndEndsTheOthers) {
  Flight flight;
  ASSERT_TRUE(flight.create(3, blocks).ok());
  std::atomic<int> begun{0}, stopped{0}, failed{0};
  auto work = [&](uint32_t, uint32_t sample) {
    ++begun;
    const uint32_t place = flight.lineUp();
    if (sample == 1) { // waits for the first
      Status status = flight.enter(0, place);
      stopped += !status.ok();
      return status;
    }
    // The third one fails when all have begun, and the first after it.
    (void)flight.away([&] { return waitUntil([&] { return sample == 0 ? failed == 1 : begun == 3; }); });
    ++failed;
    return failure(MEBP_NOT_FINITE, "sample %u", sample);
  };
  Status status = flight.run(9, std::ref(work));
  EXPECT_EQ(status.code(), MEBP_NOT_FINITE);
  EXPECT_EQ(status.message(), "sample 0");
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(stopped, 1);
  auto works = [&](uint32_t, uint32_t) { return Status(); };
  EXPECT_TRUE(flight.run(9, std::ref(works)).ok());
}

TEST(Flight, TakesNoMemoryForAStep) {
  Flight flight;
  ASSERT_TRUE(flight.create(3, blocks).ok());
  auto work = [&](uint32_t, uint32_t) {
    const uint32_t place = flight.lineUp();
    Status status = flight.enter(0, place);
    flight.leave(0);
    return status.ok() ? flight.away([] { return sleepFor(10); }) : status;
  };
  test::allocations = 0;
  test::countsAllocations = true;
  for (int step = 0; step < 3; ++step)
    (void)flight.run(8, std::ref(work));
  test::countsAllocations = false;
  EXPECT_EQ(test::allocations, 0);
}

} // namespace
} // namespace mebp
