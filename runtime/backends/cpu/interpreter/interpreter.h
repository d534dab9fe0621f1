// SPDX-License-Identifier: Apache-2.0
//
// A program prepared once, so that running it only follows pointers: kernels are looked up, attributes parsed, loops
// flattened into jumps, and every tensor has its place in a table.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "format/kernel_signature.h"
#include "format/program.pb.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/trips.h"

namespace mebp::cpu {

// A step of the flat program. `index` counts in calls, loops or windows.
struct Instruction {
  enum class Kind : uint8_t { Call, LoopBegin, LoopEnd, Slice, Update };
  Kind kind;
  uint32_t index;
};

struct PreparedCall {
  Kernel kernel = nullptr;
  Call call;
  const format::KernelSignature *signature = nullptr;
  const char *source = ""; // the op and layer of its first result
  int32_t table = -1;      // the operand of which only the rows that the first one names are read; -1: none
  int64_t piece = 0; // of rows, each of which reads one of those: where weights are limited, so many at once; 0: all
  std::vector<int32_t> values; // operands, then results; -1: absent
  std::vector<Tensor> tensors; // likewise, filled in before each call
};

struct PreparedLoop {
  const format::Loop *loop = nullptr;
  uint32_t begin = 0;                            // its LoopBegin
  std::vector<uint32_t> rowValues, columnValues; // whose live rows or columns are those of the current trip

  // While it runs.
  Trips trips;
  int64_t number = 0; // of the current trip
  Trip trip;
};

// What one trip of `loop` covers of `whole`: taken as `part` (slice), or replaced by it (update).
struct Window {
  uint32_t whole = 0, part = 0, loop = 0;
  bool columns = false;
  bool ownPart = false; // of what has no tokens: as many rows as the part has, by the trip's place
};

struct PreparedValue {
  Tensor shape; // of the largest size
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
  std::vector<Tensor> tensors; // the values, while the program runs
};

// The kernel of that name, or null.
using FindKernel = std::function<Kernel(std::string_view name)>;

// `program` was validated and must outlive `out`.
Status prepare(const format::Program &program, const FindKernel &find, PreparedProgram &out);

// Where an input or output of a program lies in this process.
struct Memory {
  unsigned char *data = nullptr;
  const uint16_t *scales = nullptr, *minima = nullptr;
};

// `bound`: the inputs, then the outputs. Gives false where it was ended before a kernel.
bool interpret(PreparedProgram &program, const Memory *bound, unsigned char *arena, const Run &run,
               const Context &context);

} // namespace mebp::cpu
