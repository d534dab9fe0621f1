// SPDX-License-Identifier: Apache-2.0
//
// Runs numbered tasks on the context's threads. Which thread runs a task depends on timing, what it computes must not:
// tasks are cut by shapes alone and write disjoint results.
#pragma once

#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/cpu/kernel/thread_pool.h"
#include "runtime/backends/cpu/kernel/thread_times.h"

#include <algorithm>
#include <atomic>

namespace mebp::cpu {

inline int64_t ceilDivide(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

inline int64_t threadsOf(const Context &context) {
  return context.pool ? static_cast<int64_t>(context.pool->threads()) : 1;
}

// Calls task(index, workspace) once for each index below `count`; `workspace` is the running thread's own. Each worker
// begins with its own share, the same in every call, so that its cache still holds what it wrote before; then it helps
// the others.
template <typename Task> void parallelFor(const Context &context, int64_t count, const Task &task) {
  constexpr int64_t maximumWorkers = 256;
  struct Shared {
    const Task &task;
    unsigned char *workspace;
    ThreadTimes *times;
    int64_t count, workers;
    std::atomic<int64_t> next[maximumWorkers];

    int64_t shareOf(int64_t worker) const { return count * worker / workers; }
  };
  int64_t workers = std::min({threadsOf(context), count, maximumWorkers});
  const ThreadTimes::Round round(context.times, count);
  if (workers <= 1) {
    ThreadTimes::Turn turn(context.times, 0);
    for (; turn.tasks < static_cast<uint64_t>(count); ++turn.tasks)
      task(static_cast<int64_t>(turn.tasks), context.workspace);
    return;
  }
  Shared shared{task, context.workspace, context.times, count, workers, {}};
  for (int64_t worker = 0; worker < workers; ++worker)
    shared.next[worker].store(shared.shareOf(worker), std::memory_order_relaxed);
  auto work = [](void *argument, size_t self) {
    auto &state = *static_cast<Shared *>(argument);
    ThreadTimes::Turn turn(state.times, self);
    unsigned char *workspace = state.workspace + self * workspaceBytes;
    for (int64_t offset = 0; offset < state.workers; ++offset) {
      int64_t worker = (static_cast<int64_t>(self) + offset) % state.workers, end = state.shareOf(worker + 1);
      for (int64_t index; (index = state.next[worker].fetch_add(1, std::memory_order_relaxed)) < end; ++turn.tasks)
        state.task(index, workspace);
    }
  };
  // In a training step idle threads soon sleep: one that spins away its time slice on a busy machine would keep the
  // next call waiting for milliseconds.
  context.pool->run(work, &shared, static_cast<size_t>(workers), context.isDecoding);
}

// Rows of a task: about 16 thousand elements or, where more threads would have fewer than two tasks each, down to four
// thousand. Smaller ones are done before another thread is awake.
inline int64_t rowsOfTask(int64_t rows, int64_t columns, int64_t threads) {
  columns = std::max<int64_t>(columns, 1);
  const int64_t most = std::max<int64_t>(1, 16384 / columns);
  return rows <= most ? most : std::clamp(rows / (2 * threads), ceilDivide(4096, columns), most);
}

// Calls body(row, workspace) for each row; prepare(workspace) comes first in each task.
template <typename Prepare, typename Body>
void parallelRows(const Context &context, int64_t rows, int64_t columns, const Prepare &prepare, const Body &body) {
  int64_t taskRows = rowsOfTask(rows, columns, threadsOf(context));
  parallelFor(context, ceilDivide(rows, taskRows), [&](int64_t task, unsigned char *workspace) {
    auto *floats = reinterpret_cast<float *>(workspace);
    prepare(floats);
    for (int64_t row = task * taskRows, end = std::min(rows, row + taskRows); row < end; ++row)
      body(row, floats);
  });
}
template <typename Body> void parallelRows(const Context &context, int64_t rows, int64_t columns, const Body &body) {
  parallelRows(context, rows, columns, [](float *) {}, [&](int64_t row, float *) { body(row); });
}

} // namespace mebp::cpu
