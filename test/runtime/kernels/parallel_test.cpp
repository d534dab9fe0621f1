// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/backends/cpu/vector/parallel.h"

using namespace mebp::cpu;

namespace {

TEST(RowsOfTask, GivesEachThreadTwoTasksThatAreWorthIt) {
  for (int64_t rows : {1, 7, 18, 19, 256, 1024, 4097})
    for (int64_t columns : {0, 1, 64, 896, 4864, 16384, 151936}) {
      const int64_t alone = rowsOfTask(rows, columns, 1);
      EXPECT_LE(alone * columns, std::max<int64_t>(16384, columns));
      for (int64_t threads : {2, 8, 16, 200}) {
        const int64_t task = rowsOfTask(rows, columns, threads);
        EXPECT_GE(task, 1);
        EXPECT_LE(task, alone) << "more threads, larger tasks";
        const int64_t tasks = ceilDivide(rows, task);
        if (ceilDivide(rows, alone) == 1) {
          EXPECT_EQ(tasks, 1) << rows << " x " << columns;
        } else if (tasks < 2 * threads) {
          EXPECT_LT((task - 1) * columns, 4096) << rows << " x " << columns << " on " << threads;
        }
        if (task < alone) {
          EXPECT_GE(task * columns, 4096) << rows << " x " << columns << " on " << threads;
        }
      }
    }
  EXPECT_EQ(ceilDivide(256, rowsOfTask(256, 896, 16)), 32);
}

// Whichever way rows are cut, each is done once, after its task's preparation.
TEST(ParallelRows, DoesEachRowOnce) {
  for (uint32_t threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    std::vector<unsigned char> workspace(threads * workspaceBytes);
    Context context;
    context.pool = &pool;
    context.workspace = workspace.data();
    for (int64_t rows : {1, 19, 300}) {
      std::vector<float> done(static_cast<size_t>(rows));
      parallelRows(
          context, rows, 896, [](float *floats) { *floats = 1; },
          [&](int64_t row, const float *floats) { done[static_cast<size_t>(row)] += *floats; });
      EXPECT_EQ(done, std::vector<float>(done.size(), 1.0f)) << rows << " rows on " << threads << " threads";
    }
  }
}

} // namespace
