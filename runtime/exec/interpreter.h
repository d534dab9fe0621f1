// SPDX-License-Identifier: Apache-2.0
//
// A program prepared once, so that running it only follows pointers: kernels are looked up, attributes parsed, loops
// flattened into jumps, and every tensor has its place in a table.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"
#include "runtime/backends/backend.h"
#include "runtime/backends/cpu/kernel.h"
#include "runtime/core/status.h"

namespace mebp {

// A step of the flat program. `index` counts in calls, loops or windows.
struct Instruction {
  enum class Kind : uint8_t { Call, LoopBegin, LoopEnd, Slice, Update };
  Kind kind;
  uint32_t index;
};

struct PreparedCall {
  cpu::Kernel kernel = nullptr;
  cpu::Call call;
  const char *name = "", *source = ""; // of the kernel, and of the op and layer of its first result
  int32_t table = -1;                  // the operand of which only the rows that the first one names are read; -1: none
  int64_t piece = 0; // those rows are the result: where weights are limited, so many are gathered at once; 0: all
  std::vector<int32_t> values;      // operands, then results; -1: absent
  std::vector<cpu::Tensor> tensors; // likewise, filled in before each call
};

struct PreparedLoop {
  format::Loop::Domain domain = format::Loop::TOKEN_ROWS;
  uint32_t domainValue = 0;
  int64_t size = 0;
  uint32_t begin = 0;                            // its LoopBegin
  std::vector<uint32_t> rowValues, columnValues; // whose live rows or columns are those of the current trip

  // While it runs: trip number `trip` of `trips` covers [first, first + rows).
  int64_t length = 0, tripsPerItem = 0, trips = 0, trip = 0;
  int64_t first = 0, rows = 0;
};

// What one trip of `loop` covers of `whole`: taken as `part` (slice), or replaced by it (update).
struct Window {
  uint32_t whole = 0, part = 0, loop = 0;
  bool columns = false;
};

struct PreparedValue {
  cpu::Tensor shape; // of the largest size
  bool tokens = false;
  int32_t binding = -1; // bound: its memory; an alias has its bound value's
  int64_t arenaOffset = -1;
};

struct PreparedProgram {
  std::vector<PreparedValue> values;
  std::vector<Instruction> instructions;
  std::vector<PreparedCall> calls;
  std::vector<PreparedLoop> loops;
  std::vector<Window> windows;
  std::vector<cpu::Tensor> tensors; // the values, while the program runs
};

// `program` was validated and must outlive `out`.
Status prepare(const format::Program &program, cpu::Family family, PreparedProgram &out);

void interpret(PreparedProgram &program, const Run &run, const cpu::Context &context);

} // namespace mebp
