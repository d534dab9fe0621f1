// SPDX-License-Identifier: Apache-2.0
#include "layout/generation.h"

#include <algorithm>

#include "format/lookup.h"
#include "layout/arena.h"

namespace mebp::layout {

using format::Port;

// 0 where it has none of this name.
static uint64_t numberOf(const format::Kernel &kernel, std::string_view name) {
  for (const format::Attribute &attribute : kernel.attributes())
    if (attribute.name() == name)
      return static_cast<uint64_t>(attribute.number());
  return 0;
}

// Null where half a model has it elsewhere.
static const format::Program *programFor(const format::Bundle &bundle, int block) {
  bool isHead = block + 1 == bundle.blocks_size();
  int32_t number = programOf(bundle.blocks(block), format::generatingProgramOf(isHead));
  return number == format::noProgram ? nullptr : &bundle.programs(number);
}

// The widest window that a kernel of the program reads a state of this size through; 0: one reads all of it.
static uint64_t windowOf(const format::Program &program, uint64_t capacity, uint64_t positions) {
  uint64_t widest = 0;
  if (capacity >= positions)
    return 0;
  for (const format::Step &step : program.steps()) {
    if (step.has_kernel() && numberOf(step.kernel(), "capacity") == capacity)
      widest = std::max(widest, numberOf(step.kernel(), "window"));
  }
  return widest;
}

static std::vector<StatePlace> placeStates(const format::Bundle &bundle, const format::Program &program,
                                           Placer &memory) {
  std::vector<StatePlace> places;
  for (const Port &port : program.inputs()) {
    if (port.kind() != Port::STATE)
      continue;
    const format::Value &value = valueOf(program, port);
    StatePlace place;
    place.capacity = value.rows() / bundle.model().batch();
    place.rowBytes = rowBytesOf(value);
    place.window = windowOf(program, place.capacity, bundle.model().positions());
    place.offset = memory.take(value.rows() * place.rowBytes);
    places.push_back(place);
  }
  return places;
}

GenerationPlan planGeneration(const format::Bundle &bundle, bool placesValues) {
  GenerationPlan layout;
  Placer memory;
  layout.flows = planFlows(bundle, memory);
  layout.remote = planRemote(bundle, true, false, memory);
  for (int i = 0; i < bundle.blocks_size(); ++i) {
    const format::Program *program = programFor(bundle, i);
    layout.states.push_back(program ? placeStates(bundle, *program, memory) : std::vector<StatePlace>());
    for (int j = 0; program && j < program->outputs_size(); ++j)
      if (const Port &output = program->outputs(j); output.kind() == Port::FLOW)
        layout.rows = static_cast<uint32_t>(valueOf(*program, output).rows());
  }
  layout.ids = memory.take(layout.rows * sizeof(int32_t));
  layout.wantedRows = memory.take(layout.rows * sizeof(int32_t));
  layout.history =
      memory.take(bundle.has_split() ? bundle.model().batch() * bundle.model().positions() * sizeof(int32_t) : 0);
  layout.scratch = memory.take(placesValues ? 0 : largestArena(programsRun(bundle, true, false)));
  layout.total = memory.total();
  return layout;
}

} // namespace mebp::layout
