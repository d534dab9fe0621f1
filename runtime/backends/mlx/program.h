// SPDX-License-Identifier: Apache-2.0
//
// A program made ready for MLX: its steps as in the format, with kernels looked up and attributes read, and with what
// no later step reads; then cut into stages. Placements are not looked at: MLX finds memory for a value.
#pragma once

#include <map>
#include <vector>

#include "runtime/backends/mlx/call.h"
#include "runtime/backends/mlx/graph.h"
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

// Steps in a row that are one graph, or one loop.
struct Stage {
  std::vector<const PreparedStep *> slices; // of what is there before: parts without a copy, which the graph takes
  std::vector<const PreparedStep *> steps;
  std::vector<uint32_t> reads;   // values that the graph takes
  std::vector<uint32_t> results; // values that it gives
  std::vector<uint32_t> dead;    // values that nothing reads after it
  std::vector<uint32_t> within;  // loops, the outermost first
  // Rows of several items in one trip: which keys they see is another graph for each trip.
  bool isMadeForPlaces = false;
  bool drops = false; // takes the step's key, where dropout is on
  const PreparedStep *loop = nullptr;
  std::vector<Stage> body;
  std::map<std::vector<int>, Graph> graphs; // by all sizes that decide about shapes
};

// A state that the program extends, or that goes on from step to step.
struct StateUse {
  int input = 0; // which one of the program's
  uint32_t rows = 0, result = 0;
  int capacity = 0; // rows of each batch item
  bool isCarried = false;
};

struct PreparedProgram {
  const format::Program *program = nullptr;
  Routes routes;
  std::vector<PreparedStep> steps;
  std::vector<StateUse> states;
  std::vector<Stage> stages;
};

// `program` was validated and must outlive `out`.
Status prepare(const format::Program &program, PreparedProgram &out);
// Of a program whose steps are prepared.
void cutIntoStages(PreparedProgram &out);

// Begins to compute all outputs, and writes them to `memory`; throws what MLX throws.
void execute(PreparedProgram &program, const Run &run, Memory &memory);

// Calls `visit` with every value that a step, or one within it, reads.
template <typename Visit> void forEachRead(const format::Step &step, const Visit &visit) {
  if (step.has_kernel())
    for (int32_t operand : step.kernel().operands())
      if (operand >= 0)
        visit(static_cast<uint32_t>(operand));
  if (step.has_slice())
    visit(step.slice().source());
  if (step.has_update()) {
    visit(step.update().destination());
    visit(step.update().source());
  }
  if (!step.has_loop())
    return;
  const format::Loop &loop = step.loop();
  if (loop.domain() == format::Loop::WEIGHT_ROWS)
    visit(loop.domain_value());
  for (const format::Carried &carried : loop.carried()) {
    visit(carried.initial());
    visit(carried.yielded());
  }
  for (const format::Step &inner : loop.steps())
    forEachRead(inner, visit);
}

// And with what one defines that is no loop.
template <typename Visit> void forEachMade(const format::Step &step, const Visit &visit) {
  if (step.has_kernel())
    for (int32_t result : step.kernel().results())
      if (result >= 0)
        visit(static_cast<uint32_t>(result));
  if (step.has_slice())
    visit(step.slice().result());
  if (step.has_update())
    visit(step.update().result());
}

} // namespace mebp::mlx
