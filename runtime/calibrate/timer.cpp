// SPDX-License-Identifier: Apache-2.0
//
// A device of its own makes a program when it has been handed over whole, and `wait` fetches what came out: calls that
// are short beside that are timed several in a program, as in a step, and many programs before a `wait`.
#include "runtime/calibrate/timer.h"

namespace mebp {

static constexpr size_t copiesOfShort = 8;

// What is timed together.
static double shortestNanoseconds(bool queues) { return queues ? 2e7 : 1e6; }

Status Timer::open(const KnownBackend &known, const BackendOptions &options) {
  Result<std::unique_ptr<Backend>> made = known.make(options);
  if (!made.ok())
    return made.status();
  backend = std::move(*made);
  queues = known.isForeign;
  for (const TimedCall &call : calls)
    *bundle.add_programs() = programOf(call, 1);
  for (const TimedCall &call : calls)
    *bundle.add_programs() = programOf(call, copiesOf(call));
  workspace.resize(backend->workspaceBytes() / sizeof(Line));
  return backend->load(bundle, workspace.empty() ? nullptr : workspace.data()->bytes);
}

// What takes nothing is the same however often it is made, and a device may make it once.
size_t Timer::copiesOf(const TimedCall &call) const { return queues && !call.operands.empty() ? copiesOfShort : 1; }

Status Timer::enqueue(const Running &running) {
  const size_t first = queues ? 0 : turn; // a device keeps the weights that it has seen
  turn += running.copies;
  bindings.clear();
  for (const std::vector<Tensor> *tensors : {&running.call.operands, &running.call.results})
    for (size_t copy = 0; copy < running.copies; ++copy)
      for (const Tensor &tensor : *tensors)
        if (tensor.matrix.rows)
          bindings.push_back(running.memory.bind(tensor, first + copy));
  Run run;
  run.bindings = bindings.data();
  run.batch = 1;
  run.sequence = running.call.tokens;
  return backend->enqueue(running.program, run);
}

Result<double> Timer::timeRuns(const Running &running, size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  Status status;
  for (size_t i = 0; i < count && status.ok(); ++i)
    status = enqueue(running);
  if (status.ok())
    status = backend->wait();
  if (!status.ok())
    return status;
  return nanosecondsSince(begin);
}

Result<double> Timer::time(size_t index) {
  const TimedCall &call = calls[index];
  const Pools::Lent memory(pools, *backend);
  const Running one = {static_cast<uint32_t>(index), call, 1, memory};
  const Running several = {static_cast<uint32_t>(calls.size() + index), call, copiesOf(call), memory};
  // Once untimed: then its activations are in a cache, as in a step, and a device knows the program.
  if (Result<double> first = timeRuns(one, 1); !first.ok())
    return first;
  Result<double> spent = timeRuns(one, 1);
  if (!spent.ok() || *spent >= shortestNanoseconds(queues))
    return spent;
  if (Result<double> first = timeRuns(several, 1); !first.ok())
    return first;
  for (size_t count = 1;; count *= 2) {
    spent = timeRuns(several, count);
    if (!spent.ok())
      return spent;
    if (*spent >= shortestNanoseconds(queues))
      return *spent / static_cast<double>(count * several.copies);
  }
}

} // namespace mebp
