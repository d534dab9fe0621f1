// SPDX-License-Identifier: Apache-2.0
//
// Threads that the host's part of a step, as the optimizer's, shares with the kernels.
#pragma once

#include <cstdint>

namespace mebp {

class Workers {
public:
  virtual ~Workers() = default;
  // Calls task(argument, i) once for each i below `count`. Which thread calls depends on timing; what a task computes
  // must not: tasks are cut by shapes alone and write what no other reads.
  virtual void run(uint64_t count, void (*task)(void *argument, uint64_t index), void *argument) = 0;
};

// task(i) for each i below `count`; on the calling thread where there are no workers.
template <typename Task> void forEach(Workers *workers, uint64_t count, const Task &task) {
  if (workers && count > 1) {
    auto call = [](void *argument, uint64_t index) { (*static_cast<const Task *>(argument))(index); };
    workers->run(count, call, const_cast<Task *>(&task));
    return;
  }
  for (uint64_t index = 0; index < count; ++index)
    task(index);
}

} // namespace mebp
