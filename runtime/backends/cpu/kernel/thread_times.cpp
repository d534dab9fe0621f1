// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/kernel/thread_times.h"

namespace mebp::cpu {

static int64_t nanoseconds(ThreadTimes::Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

void ThreadTimes::beginCall() {
  std::fill(cells.begin(), cells.end(), Cell());
  waited = {};
  rounds = fewest = 0;
  begun = Clock::now();
}

// What a kernel does outside of rounds, the caller does.
void ThreadTimes::endCall(Work &work) {
  const Clock::duration all = Clock::now() - begun;
  for (size_t thread = 0; thread < cells.size(); ++thread) {
    const Clock::duration busy = thread ? cells[thread].busy : all - waited;
    shares[thread] = {cells[thread].tasks, nanoseconds(busy), nanoseconds(all - busy)};
  }
  work.rounds = rounds;
  work.fewestTasks = fewest;
  work.threads = shares.data();
  work.threadCount = shares.size();
}

} // namespace mebp::cpu
