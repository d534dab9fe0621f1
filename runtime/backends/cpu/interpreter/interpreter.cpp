// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/interpreter/interpreter.h"

#include <algorithm>
#include <cstring>

#include "runtime/backends/cpu/interpreter/count_work.h"
#include "runtime/backends/cpu/interpreter/tensors.h"
#include "runtime/backends/cpu/kernel/thread_times.h"

namespace mebp::cpu {

static void placeValues(PreparedProgram &program, const Memory *bound, unsigned char *arena, const Run &run) {
  int64_t tokens = run.batch * run.sequence;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const PreparedValue &value = program.values[i];
    Tensor &tensor = program.tensors[i];
    tensor = value.shape;
    if (value.tokens)
      tensor.rows = tokens;
    if (value.arenaOffset >= 0)
      tensor.data = arena + value.arenaOffset;
    if (value.binding >= 0) {
      const Memory &memory = bound[value.binding];
      tensor.data = memory.data;
      tensor.scales = memory.scales;
      tensor.minima = memory.minima;
    }
  }
}

static void beginTrip(PreparedProgram &program, PreparedLoop &loop) {
  loop.trip = loop.trips[loop.number];
  for (uint32_t index : loop.rowValues) {
    program.tensors[index].rows = loop.trip.rows;
    program.tensors[index].firstRow = loop.trip.first;
  }
  for (uint32_t index : loop.columnValues) {
    program.tensors[index].columns = loop.trip.rows;
    program.tensors[index].firstColumn = loop.trip.first;
  }
}

static void beginLoop(PreparedProgram &program, PreparedLoop &loop, const Run &run) {
  bool ofWeight = loop.loop->domain() == format::Loop::WEIGHT_ROWS;
  int64_t weightRows = ofWeight ? program.tensors[loop.loop->domain_value()].rows : 0;
  loop.trips = Trips(*loop.loop, weightRows, run.batch, run.sequence);
  loop.number = 0;
  beginTrip(program, loop);
}

// Where the current trip's part of a whole value starts.
static Tensor startOf(const PreparedProgram &program, const Window &window) {
  Tensor start = program.tensors[window.whole];
  const PreparedLoop &loop = program.loops[window.loop];
  int64_t first =
      window.ownPart ? loop.trips.placeOf(loop.number) * program.tensors[window.part].rows : loop.trip.first;
  window.columns ? advanceColumns(start, first) : advanceRows(start, first);
  return start;
}

static void slice(PreparedProgram &program, const Window &window) {
  Tensor start = startOf(program, window);
  Tensor &part = program.tensors[window.part];
  part.data = start.data;
  part.scales = start.scales;
  part.minima = start.minima;
}

static void update(PreparedProgram &program, const Window &window) {
  Tensor start = startOf(program, window);
  const Tensor &part = program.tensors[window.part];
  if (start.data == part.data)
    return;
  // Regions may overlap where the planner let a value end in the middle of another.
  auto *to = static_cast<unsigned char *>(start.data);
  auto *from = static_cast<const unsigned char *>(part.data);
  for (int64_t row = 0; row < part.rows; ++row)
    std::memmove(to + row * bytesOf(start, start.stride), from + row * bytesOf(part, part.stride),
                 static_cast<size_t>(bytesOf(part, part.columns)));
}

static Tensor rowsOf(Tensor tensor, int64_t first, int64_t count) {
  advanceRows(tensor, first);
  tensor.rows = count;
  return tensor;
}

static void tell(Observer &observer, const Tensor &tensor) {
  int64_t rowBytes = bytesOf(tensor, tensor.rows > 1 ? tensor.stride : tensor.columns);
  observer.willRead(tensor.data, static_cast<uint64_t>(tensor.rows * rowBytes));
  if (!tensor.group)
    return;
  auto groupBytes = static_cast<uint64_t>(tensor.rows * (tensor.stride / tensor.group)) * sizeof(uint16_t);
  observer.willRead(tensor.scales, groupBytes);
  observer.willRead(tensor.minima, groupBytes);
}

static void tellReads(const PreparedCall &prepared, Observer &observer) {
  for (size_t i = 0; i < prepared.call.operandCount; ++i) {
    const Tensor &tensor = prepared.tensors[i], &ids = prepared.tensors[0];
    if (static_cast<int32_t>(i) != prepared.table) {
      tell(observer, tensor);
      continue;
    }
    for (int64_t row = 0; row < ids.rows; ++row)
      if (int32_t id = ids.i32()[row * ids.stride]; id >= 0)
        tell(observer, rowsOf(tensor, id, 1));
  }
}

// `observer` may be null, or follows reads.
static void callKernel(PreparedCall &prepared, Observer *observer, const Context &context) {
  if (observer && prepared.piece) {
    auto forEachOfRows = [&](auto body) {
      for (size_t i = 0; i < prepared.tensors.size(); ++i)
        if (static_cast<int32_t>(i) != prepared.table && prepared.tensors[i].present())
          body(prepared.tensors[i]);
    };
    for (int64_t left = prepared.tensors[0].rows; left > 0; left -= prepared.piece) {
      const int64_t rows = std::min(prepared.piece, left);
      forEachOfRows([&](Tensor &tensor) { tensor.rows = rows; });
      tellReads(prepared, *observer);
      prepared.kernel(prepared.call, context);
      forEachOfRows([&](Tensor &tensor) { advanceRows(tensor, rows); });
    }
    return;
  }
  if (observer)
    tellReads(prepared, *observer);
  prepared.kernel(prepared.call, context);
}

static void call(PreparedProgram &program, PreparedCall &prepared, Observer *observer, const Context &context) {
  for (size_t i = 0; i < prepared.values.size(); ++i)
    prepared.tensors[i] = prepared.values[i] < 0 ? Tensor() : program.tensors[prepared.values[i]];
  if (!observer)
    return callKernel(prepared, nullptr, context);
  Work work;
  if (context.times) {
    work = countWork(*prepared.signature, prepared.call, context);
    context.times->beginCall();
  }
  observer->begin();
  callKernel(prepared, observer->followsReads() ? observer : nullptr, context);
  if (context.times)
    context.times->endCall(work);
  observer->end(prepared.signature->name, prepared.source, context.times ? &work : nullptr);
}

bool interpret(PreparedProgram &program, const Memory *bound, unsigned char *arena, const Run &run,
               const Context &context) {
  placeValues(program, bound, arena, run);
  for (size_t next = 0; next < program.instructions.size(); ++next) {
    const Instruction &instruction = program.instructions[next];
    switch (instruction.kind) {
    case Instruction::Kind::Call:
      if (run.cancellation && run.cancellation->isDue())
        return false;
      call(program, program.calls[instruction.index], run.observer, context);
      break;
    case Instruction::Kind::Slice:
      slice(program, program.windows[instruction.index]);
      break;
    case Instruction::Kind::Update:
      update(program, program.windows[instruction.index]);
      break;
    case Instruction::Kind::LoopBegin:
      beginLoop(program, program.loops[instruction.index], run);
      break;
    case Instruction::Kind::LoopEnd: {
      PreparedLoop &loop = program.loops[instruction.index];
      if (++loop.number < loop.trips.count()) {
        beginTrip(program, loop);
        next = loop.begin;
      }
      break;
    }
    }
  }
  return true;
}

} // namespace mebp::cpu
