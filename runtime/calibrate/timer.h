// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "runtime/backends/backends.h"
#include "runtime/calibrate/calls.h"

namespace mebp {

inline double nanosecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Times kernel calls on a device.
class Timer {
public:
  // `calls` and `pools` must outlive it.
  Timer(const std::vector<TimedCall> &calls, Pools &pools) : calls(calls), pools(pools) {}

  Status open(const KnownBackend &known, const BackendOptions &options);
  const char *kernels() const { return backend->kernels(); }
  Workers *workers() { return backend->workers(); }
  // Nanoseconds of one call, among others of its kind: short ones run several times.
  Result<double> time(size_t index);

private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  // One of a call's two programs, with the memory that its calls use.
  struct Running {
    uint32_t program;
    const TimedCall &call;
    size_t copies;
    const Pools::Lent &memory;
  };
  size_t copiesOf(const TimedCall &call) const;
  Status enqueue(const Running &running);
  Result<double> timeRuns(const Running &running, size_t count);

  const std::vector<TimedCall> &calls;
  Pools &pools;
  bool queues = false; // it computes while the host goes on
  size_t turn = 0;     // of weights
  std::vector<Binding> bindings;
  format::Bundle bundle;
  std::vector<Line> workspace;
  std::unique_ptr<Backend> backend; // goes before what it uses
};

} // namespace mebp
