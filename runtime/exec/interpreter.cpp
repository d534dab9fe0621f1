// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/interpreter.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/residency.h"
#include "runtime/core/trace.h"
#include "runtime/exec/tensors.h"

namespace mebp {

static void placeValues(PreparedProgram &program, const Run &run) {
  int64_t tokens = run.batch * run.sequence;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const PreparedValue &value = program.values[i];
    cpu::Tensor &tensor = program.tensors[i];
    tensor = value.shape;
    if (value.tokens)
      tensor.rows = tokens;
    if (value.arenaOffset >= 0)
      tensor.data = run.arena + value.arenaOffset;
    if (value.binding >= 0) {
      const Binding &binding = run.bindings[value.binding];
      tensor.data = binding.data;
      tensor.scales = binding.scales;
      tensor.minima = binding.minima;
    }
  }
}

// Borders are the same whichever way a sequence is run through; items ascend in both.
static void beginTrip(PreparedProgram &program, PreparedLoop &loop) {
  int64_t item = loop.trip / loop.tripsPerItem, chunk = loop.trip % loop.tripsPerItem;
  if (loop.domain == format::Loop::SEQUENCE_REVERSED)
    chunk = loop.tripsPerItem - 1 - chunk;
  int64_t offset = chunk * loop.size;
  loop.first = item * loop.length + offset;
  loop.rows = std::min(loop.size, loop.length - offset);
  for (uint32_t index : loop.rowValues) {
    program.tensors[index].rows = loop.rows;
    program.tensors[index].firstRow = loop.first;
  }
  for (uint32_t index : loop.columnValues) {
    program.tensors[index].columns = loop.rows;
    program.tensors[index].firstColumn = loop.first;
  }
}

static void beginLoop(PreparedProgram &program, PreparedLoop &loop, const Run &run) {
  int64_t items = 1;
  switch (loop.domain) {
  case format::Loop::WEIGHT_ROWS:
    loop.length = program.tensors[loop.domainValue].rows;
    break;
  case format::Loop::TOKEN_ROWS:
    loop.length = run.batch * run.sequence;
    break;
  default:
    loop.length = run.sequence;
    items = run.batch;
  }
  loop.tripsPerItem = (loop.length + loop.size - 1) / loop.size;
  loop.trips = items * loop.tripsPerItem;
  loop.trip = 0;
  beginTrip(program, loop);
}

// Where the current trip's part of a whole value starts.
static cpu::Tensor startOf(const PreparedProgram &program, const Window &window) {
  cpu::Tensor start = program.tensors[window.whole];
  int64_t first = program.loops[window.loop].first;
  window.columns ? advanceColumns(start, first) : advanceRows(start, first);
  return start;
}

static void slice(PreparedProgram &program, const Window &window) {
  cpu::Tensor start = startOf(program, window);
  cpu::Tensor &part = program.tensors[window.part];
  part.data = start.data;
  part.scales = start.scales;
  part.minima = start.minima;
}

static void update(PreparedProgram &program, const Window &window) {
  cpu::Tensor start = startOf(program, window);
  const cpu::Tensor &part = program.tensors[window.part];
  if (start.data == part.data)
    return;
  // Regions may overlap where the planner let a value end in the middle of another.
  auto *to = static_cast<unsigned char *>(start.data);
  auto *from = static_cast<const unsigned char *>(part.data);
  for (int64_t row = 0; row < part.rows; ++row)
    std::memmove(to + row * bytesOf(start, start.stride), from + row * bytesOf(part, part.stride),
                 static_cast<size_t>(bytesOf(part, part.columns)));
}

static cpu::Tensor rowsOf(cpu::Tensor tensor, int64_t first, int64_t count) {
  advanceRows(tensor, first);
  tensor.rows = count;
  return tensor;
}

static void use(Residency &residency, const cpu::Tensor &tensor) {
  int64_t rowBytes = bytesOf(tensor, tensor.rows > 1 ? tensor.stride : tensor.columns);
  residency.use(tensor.data, static_cast<uint64_t>(tensor.rows * rowBytes));
  if (!tensor.group)
    return;
  auto groupBytes = static_cast<uint64_t>(tensor.rows * (tensor.stride / tensor.group)) * sizeof(uint16_t);
  residency.use(tensor.scales, groupBytes);
  residency.use(tensor.minima, groupBytes);
}

static void bringIn(const PreparedCall &prepared, Residency &residency) {
  for (size_t i = 0; i < prepared.call.operandCount; ++i) {
    const cpu::Tensor &tensor = prepared.tensors[i], &ids = prepared.tensors[0];
    if (static_cast<int32_t>(i) != prepared.table) {
      use(residency, tensor);
      continue;
    }
    for (int64_t row = 0; row < ids.rows; ++row)
      if (int32_t id = ids.i32()[row * ids.stride]; id >= 0)
        use(residency, rowsOf(tensor, id, 1));
  }
}

static void callKernel(PreparedProgram &program, PreparedCall &prepared, Residency *residency,
                       const cpu::Context &context) {
  for (size_t i = 0; i < prepared.values.size(); ++i)
    prepared.tensors[i] = prepared.values[i] < 0 ? cpu::Tensor() : program.tensors[prepared.values[i]];
  if (residency && prepared.piece) {
    cpu::Tensor &ids = prepared.tensors[0], &out = prepared.tensors[prepared.call.operandCount];
    const cpu::Tensor allIds = ids, wholeOut = out;
    for (int64_t first = 0; first < allIds.rows; first += prepared.piece) {
      int64_t count = std::min(prepared.piece, allIds.rows - first);
      ids = rowsOf(allIds, first, count);
      out = rowsOf(wholeOut, first, count);
      bringIn(prepared, *residency);
      prepared.kernel(prepared.call, context);
    }
    return;
  }
  if (residency)
    bringIn(prepared, *residency);
  prepared.kernel(prepared.call, context);
}

static void call(PreparedProgram &program, PreparedCall &prepared, const Run &run, const cpu::Context &context) {
  Trace::Time begin = run.trace ? Trace::now() : Trace::Time();
  callKernel(program, prepared, run.residency, context);
  if (run.trace)
    run.trace->span(prepared.name, "kernel", prepared.source, begin);
}

void interpret(PreparedProgram &program, const Run &run, const cpu::Context &context) {
  placeValues(program, run);
  for (size_t next = 0; next < program.instructions.size(); ++next) {
    const Instruction &instruction = program.instructions[next];
    switch (instruction.kind) {
    case Instruction::Kind::Call:
      call(program, program.calls[instruction.index], run, context);
      if (run.peak)
        run.peak->sample();
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
      if (++loop.trip < loop.trips) {
        beginTrip(program, loop);
        next = loop.begin;
      }
      break;
    }
    }
  }
}

} // namespace mebp
