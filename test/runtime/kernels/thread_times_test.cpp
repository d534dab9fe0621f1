// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/backends/cpu/vector/parallel.h"

using namespace mebp;
using namespace mebp::cpu;

namespace {

struct Threads {
  explicit Threads(uint32_t count) : pool(count), times(count), workspace(count * workspaceBytes) {
    context.pool = &pool;
    context.times = &times;
    context.workspace = workspace.data();
  }
  Work call(std::initializer_list<int64_t> rounds) {
    Work work;
    times.beginCall();
    for (int64_t tasks : rounds)
      parallelFor(context, tasks, [](int64_t, unsigned char *) {});
    times.endCall(work);
    return work;
  }

  ThreadPool pool;
  ThreadTimes times;
  std::vector<unsigned char> workspace;
  Context context;
};

uint64_t tasksOf(const Work &work) {
  uint64_t sum = 0;
  for (size_t i = 0; i < work.threadCount; ++i)
    sum += work.threads[i].tasks;
  return sum;
}

TEST(ThreadTimes, CountsEveryTaskOfEveryRound) {
  for (uint32_t count : {1, 2, 3, 8}) {
    Threads threads(count);
    const Work work = threads.call({40, 7, 1, 100});
    EXPECT_EQ(work.threadCount, count);
    EXPECT_EQ(tasksOf(work), 148u);
    EXPECT_EQ(work.rounds, 4u);
    EXPECT_EQ(work.fewestTasks, 1u);
    // Nothing of one call is left in the next.
    const Work next = threads.call({5});
    EXPECT_EQ(tasksOf(next), 5u);
    EXPECT_EQ(next.rounds, 1u);
    EXPECT_EQ(next.fewestTasks, 5u);
  }
}

TEST(ThreadTimes, DividesTheCallIntoWorkAndWaiting) {
  for (uint32_t count : {1, 4}) {
    Threads threads(count);
    const Work work = threads.call({64, 64});
    const int64_t all = work.threads[0].busy + work.threads[0].waiting;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_GE(work.threads[i].busy, 0);
      EXPECT_GE(work.threads[i].waiting, 0);
      EXPECT_EQ(work.threads[i].busy + work.threads[i].waiting, all);
    }
  }
  // Alone, a thread waits for nobody: what is left of it are looks at the clock.
  Threads alone(1);
  alone.times.beginCall();
  parallelFor(alone.context, 1,
              [](int64_t, unsigned char *) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  Work work;
  alone.times.endCall(work);
  EXPECT_GE(work.threads[0].busy, 20'000'000);
  EXPECT_LT(work.threads[0].waiting, work.threads[0].busy);
}

// The caller's task is over once both have begun, the other thread's takes longer.
TEST(ThreadTimes, ShowsWhoWaitsForWhom) {
  Threads threads(2);
  std::atomic<int> begun{0};
  const auto caller = std::this_thread::get_id();
  threads.times.beginCall();
  parallelFor(threads.context, 2, [&](int64_t, unsigned char *) {
    ++begun;
    while (begun < 2)
      std::this_thread::yield();
    if (std::this_thread::get_id() != caller)
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  Work work;
  threads.times.endCall(work);
  EXPECT_EQ(work.threads[0].tasks, 1u);
  EXPECT_EQ(work.threads[1].tasks, 1u);
  EXPECT_GE(work.threads[1].busy, 200'000'000);
  EXPECT_GT(work.threads[0].waiting, 10'000'000);
}

} // namespace
