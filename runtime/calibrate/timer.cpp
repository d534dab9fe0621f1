// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/timer.h"

#include "runtime/backends/cpu/choice.h"

namespace mebp {

static constexpr double shortestNanoseconds = 1e6; // of calls that are timed together

Timer::Timer(Pools &pools, uint32_t threads) : pools(pools), machine(cpu::instructionSet(), threads) {}

void Timer::run(TimedCall &call) {
  if (call.frozen >= 0) {
    cpu::Tensor &weight = call.operands[static_cast<size_t>(call.frozen)];
    weight = pools.weight(weight.storage, weight.rows, weight.columns, turn++);
  }
  call.kernel({call.operands.data(), call.operands.size(), call.results.data(), call.results.size(), call.attributes},
              context);
}

double Timer::time(TimedCall &call) {
  context = machine.contextOf(call.sequence);
  run(call); // then its activations are in a cache, as in a step
  auto begin = std::chrono::steady_clock::now();
  for (int count = 1;; ++count) {
    run(call);
    if (double spent = nanosecondsSince(begin); spent >= shortestNanoseconds)
      return spent / count;
  }
}

} // namespace mebp
