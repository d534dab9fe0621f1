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
#include <new>

namespace mebp::cpu {

inline int64_t ceilDivide(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

inline int64_t threadsOf(const Context &context) {
  return context.pool ? static_cast<int64_t>(context.pool->threads()) : 1;
}

// Calls task(first, last, workspace) for runs of at most `most` indices which together are those below `count`;
// `workspace` is the running thread's own. Each worker begins with its own share, which is nearly the same in every
// call, so that its cache still holds what it wrote before; then it helps the others. Shares are as large as threads
// were fast before, and a run is at most a quarter of what is left of a share: so runs end short, and nobody waits long
// for a core that is slow or has been taken away.
template <typename Task> void parallelRuns(const Context &context, int64_t count, int64_t most, const Task &task) {
  constexpr int64_t maximumWorkers = 256;
  // What is left of a worker's share; on a line of its own, or each would wait for what the others write there.
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;

    // Empty where nothing is left.
    int64_t take(int64_t most, int64_t &first) {
      first = next.load(std::memory_order_relaxed);
      for (;;) {
        if (first >= end)
          return first;
        const int64_t last = first + std::clamp<int64_t>((end - first) / 4, 1, most);
        if (next.compare_exchange_weak(first, last, std::memory_order_relaxed))
          return last;
      }
    }
  };
  struct Shared {
    const Task &task;
    unsigned char *workspace;
    ThreadTimes *times;
    int64_t count, most, workers;
    Share *shares;
  };
  if (count == 0)
    return;
  int64_t workers = std::min({threadsOf(context), count, maximumWorkers});
  const ThreadTimes::Round round(context.times, count);
  if (workers <= 1) {
    ThreadTimes::Turn turn(context.times, 0);
    for (int64_t first = 0; first < count; first += most)
      task(first, std::min(count, first + most), context.workspace);
    turn.tasks = static_cast<uint64_t>(count);
    return;
  }
  alignas(Share) unsigned char room[maximumWorkers * sizeof(Share)]; // of which as much is written as there are workers
  Shared shared{task, context.workspace, context.times, count, most, workers, reinterpret_cast<Share *>(room)};
  int64_t weights = 0, before = 0;
  for (int64_t worker = 0; worker < workers; ++worker)
    weights += context.pool->weightOf(static_cast<size_t>(worker));
  for (int64_t worker = 0; worker < workers; ++worker) {
    const int64_t first = count * before / weights;
    before += context.pool->weightOf(static_cast<size_t>(worker));
    new (shared.shares + worker) Share{first, count * before / weights};
  }
  auto work = [](void *argument, size_t self) {
    auto &state = *static_cast<Shared *>(argument);
    ThreadTimes::Turn turn(state.times, self);
    unsigned char *workspace = state.workspace + self * workspaceBytes;
    int64_t done = 0;
    for (int64_t offset = 0; offset < state.workers; ++offset) {
      const int64_t worker = (static_cast<int64_t>(self) + offset) % state.workers;
      for (int64_t first, last; (last = state.shares[worker].take(state.most, first)) > first; done += last - first)
        state.task(first, last, workspace);
    }
    turn.tasks = static_cast<uint64_t>(done);
    return static_cast<float>(done) / static_cast<float>(state.count);
  };
  // In a training step idle threads soon sleep: one that spins away its time slice on a busy machine would keep the
  // next call waiting for milliseconds.
  context.pool->run(work, &shared, static_cast<size_t>(workers), context.isDecoding);
}

// Calls task(index, workspace) once for each index below `count`.
template <typename Task> void parallelFor(const Context &context, int64_t count, const Task &task) {
  parallelRuns(context, count, 1, [&](int64_t index, int64_t, unsigned char *workspace) { task(index, workspace); });
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
