// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/backends/cpu/kernel/flush_denormals.h"
#include "runtime/backends/cpu/vector/parallel.h"

using namespace mebp::cpu;

namespace {

struct Threads {
  explicit Threads(uint32_t count) : pool(count), workspace(count * workspaceBytes) {
    context.pool = &pool;
    context.workspace = workspace.data();
  }

  ThreadPool pool;
  std::vector<unsigned char> workspace;
  Context context;
};

TEST(ThreadPool, DoesEachTaskOnce) {
  for (uint32_t count : {2, 3, 16}) {
    Threads threads(count);
    ASSERT_EQ(threads.pool.threads(), count);
    for (int call = 0; call < 3000; ++call) {
      threads.context.isDecoding = call / 100 % 2;
      std::vector<int> done(static_cast<size_t>(call % 40));
      parallelFor(threads.context, call % 40,
                  [&](int64_t task, unsigned char *) { ++done[static_cast<size_t>(task)]; });
      ASSERT_EQ(done, std::vector<int>(done.size(), 1)) << "call " << call << " on " << count << " threads";
    }
  }
}

TEST(ThreadPool, RunsAreShortAtTheEndOfAShare) {
  for (uint32_t count : {1, 2, 3})
    for (int64_t indices : {0, 1, 7, 28, 152})
      for (int64_t most : {1, 4, 100}) {
        Threads threads(count);
        std::vector<int> done(static_cast<size_t>(indices));
        std::atomic<int64_t> longest{0}, last{0};
        parallelRuns(threads.context, indices, most, [&](int64_t from, int64_t to, unsigned char *) {
          for (int64_t index = from; index < to; ++index)
            ++done[static_cast<size_t>(index)];
          longest = std::max<int64_t>(longest, to - from);
          if (to == indices)
            last = to - from;
        });
        EXPECT_EQ(done, std::vector<int>(done.size(), 1)) << indices << " on " << count;
        EXPECT_LE(longest, most);
        if (count > 1 && indices > 1) {
          EXPECT_EQ(last, 1) << indices << " on " << count;
        }
      }
}

// Two tasks that wait for each other end only where two threads run them.
TEST(ThreadPool, RunsTasksAtOnce) {
  Threads threads(2);
  std::atomic<int> here{0};
  parallelFor(threads.context, 2, [&](int64_t, unsigned char *) {
    ++here;
    while (here < 2)
      std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

#if defined(__x86_64__)
// As the caller does while it runs a program, and not afterwards.
TEST(ThreadPool, ItsThreadsFlushDenormals) {
  Threads threads(2);
  auto isFlushed = [] {
    volatile float small = 1e-30f;
    return small * 1e-10f == 0;
  };
  EXPECT_FALSE(isFlushed());
  std::atomic<int> here{0}, flushed{0};
  {
    const FlushDenormals flush;
    parallelFor(threads.context, 2, [&](int64_t, unsigned char *) {
      for (++here; here < 2;)
        std::this_thread::yield();
      flushed += isFlushed();
    });
  }
  EXPECT_EQ(flushed, 2);
  EXPECT_FALSE(isFlushed());
}
#endif

TEST(ThreadPool, GivesEachThreadItsOwnWorkspace) {
  Threads threads(4);
  std::atomic<int> mixed{0};
  for (int call = 0; call < 500; ++call)
    parallelFor(threads.context, 64, [&](int64_t task, unsigned char *workspace) {
      auto *own = reinterpret_cast<volatile int64_t *>(workspace);
      *own = task;
      std::this_thread::yield();
      mixed += *own != task;
    });
  EXPECT_EQ(mixed, 0);
}

// The caller sleeps for those that are inside, however long they take.
TEST(ThreadPool, WaitsForThreadsThatAreInside) {
  Threads threads(3);
  std::atomic<int> here{0}, done{0};
  parallelFor(threads.context, 3, [&](int64_t task, unsigned char *) {
    for (++here; here < 3;)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(task == 0 ? 0 : 50));
    ++done;
  });
  EXPECT_EQ(done, 3);
}

// One that keeps its task for long, as one does whose core another process has, is soon not asked; and is asked again.
TEST(ThreadPool, SharesAreAsLargeAsThreadsAreFast) {
  Threads threads(2);
  const auto caller = std::this_thread::get_id();
  const int64_t equal = threads.pool.weightOf(0);
  EXPECT_EQ(threads.pool.weightOf(1), equal);
  int slowdown = 6;
  auto callUntil = [&](auto condition) {
    for (const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
         !condition() && std::chrono::steady_clock::now() < last;)
      parallelFor(threads.context, 40, [&](int64_t, unsigned char *) {
        const int times = std::this_thread::get_id() == caller ? 1 : slowdown;
        std::this_thread::sleep_for(std::chrono::microseconds(200 * times));
      });
    return condition();
  };
  EXPECT_TRUE(callUntil([&] { return threads.pool.weightOf(1) <= equal / 2; }));
  slowdown = 1;
  EXPECT_TRUE(callUntil([&] { return threads.pool.weightOf(1) >= equal * 3 / 4; }));
  EXPECT_EQ(threads.pool.weightOf(0), equal);
}

TEST(ThreadPool, WorksAloneWhileOthersKeepItWaiting) {
  Threads threads(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> helped{0};
  std::atomic<bool> isSlow{true};
  auto call = [&] {
    std::atomic<int> done{0};
    parallelFor(threads.context, 8, [&](int64_t, unsigned char *) {
      if (std::this_thread::get_id() != caller) {
        ++helped;
        std::this_thread::sleep_for(std::chrono::milliseconds(isSlow ? 5 : 0));
      }
      ++done;
    });
    ASSERT_EQ(done, 8);
  };
  for (const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
       !helped && std::chrono::steady_clock::now() < last;)
    call();
  ASSERT_GT(helped, 0);
  const int before = helped;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int calls = 0;
  for (; std::chrono::steady_clock::now() < end; ++calls)
    call();
  EXPECT_LT(helped - before, calls / 10);
  isSlow = false;
  const int alone = helped;
  for (auto last = end + std::chrono::seconds(60); helped == alone && std::chrono::steady_clock::now() < last;)
    call();
  EXPECT_GT(helped, alone);
}

} // namespace
