// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of a kernel call beside its time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mebp {

// Of one thread in a kernel call, in nanoseconds: what is not waiting, for work or for the other threads, is busy.
struct ThreadShare {
  uint64_t tasks = 0;
  int64_t busy = 0, waiting = 0;
};

struct Work {
  double flops = 0, bytes = 0;          // that the kernel's equation computes and that it has to move at least
  uint64_t rounds = 0, fewestTasks = 0; // how often threads were given tasks, and how few of them at once
  const ThreadShare *threads = nullptr; // the caller's is the first
  size_t threadCount = 0;
};

} // namespace mebp
