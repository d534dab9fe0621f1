// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "runtime/backends/cpu/machine.h"
#include "runtime/calibrate/calls.h"

namespace mebp {

inline double nanosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Times kernel calls on a number of threads.
class Timer {
public:
  Timer(Pools &pools, uint32_t threads);

  bool hasThreads() const { return machine.hasThreads(); }
  // Nanoseconds of one call, among others of its kind: short ones run several times.
  double time(TimedCall &call);

private:
  void run(TimedCall &call);

  Pools &pools;
  cpu::Machine machine;
  cpu::Context context;
  size_t turn = 0;
};

} // namespace mebp
