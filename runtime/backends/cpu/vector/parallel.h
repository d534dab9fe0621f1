// SPDX-License-Identifier: Apache-2.0
//
// Runs numbered tasks on the context's threads. Which thread runs a task depends on timing, what it computes must not:
// tasks are cut by shapes alone and write disjoint results.
#pragma once

#include "runtime/backends/cpu/kernel.h"

#include <algorithm>
#include <atomic>

namespace mebp::cpu {

// Calls task(index, workspace) once for each index below `count`; `workspace` is the running thread's own.
template <typename Task> void parallelFor(const Context &context, int64_t count, const Task &task) {
  struct Shared {
    const Task &task;
    unsigned char *workspace;
    int64_t count;
    std::atomic<int64_t> next;
  } shared{task, context.workspace, count, {0}};
  // One item a worker: pthreadpool does not tell which thread runs an item, but an item runs on one thread only.
  auto work = [](void *argument, size_t worker) {
    auto &state = *static_cast<Shared *>(argument);
    unsigned char *workspace = state.workspace + worker * workspaceBytes;
    for (int64_t index; (index = state.next.fetch_add(1, std::memory_order_relaxed)) < state.count;)
      state.task(index, workspace);
  };
  auto threads = context.pool ? static_cast<int64_t>(pthreadpool_get_threads_count(context.pool)) : 1;
  int64_t workers = std::min(threads, count);
  if (workers <= 1)
    work(&shared, 0);
  else
    pthreadpool_parallelize_1d(context.pool, work, &shared, static_cast<size_t>(workers), 0);
}

inline int64_t ceilDivide(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

} // namespace mebp::cpu
