// SPDX-License-Identifier: Apache-2.0
//
// A program made ready for MLX: its steps as in the format, with kernels looked up and attributes read, and with what
// no later step reads. Placements are not looked at: a value is a node of a graph, and MLX finds memory for it.
#pragma once

#include <vector>

#include "runtime/backends/mlx/call.h"
#include "runtime/backends/mlx/memory.h"
#include "runtime/core/status.h"

namespace mebp::mlx {

struct PreparedStep {
  const format::Step *step = nullptr;
  Kernel kernel = nullptr; // of a call
  Attributes attributes;
  std::vector<PreparedStep> body; // of a loop
  std::vector<uint32_t> dead;     // values of this list of steps that nothing reads after this one
  std::vector<uint32_t> taken;    // by a loop: of these, what it begins with and its steps do not read
  std::vector<uint32_t> left;     // by each trip of a loop: what its steps made and it yields
};

struct PreparedProgram {
  const format::Program *program = nullptr;
  std::vector<PreparedStep> steps;
};

// `program` was validated and must outlive `out`.
Status prepare(const format::Program &program, PreparedProgram &out);

// Begins to compute all outputs, and writes them to `memory`; throws what MLX throws.
void execute(const PreparedProgram &program, const Run &run, Memory &memory);

} // namespace mebp::mlx
