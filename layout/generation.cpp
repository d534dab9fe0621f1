// SPDX-License-Identifier: Apache-2.0
#include "layout/generation.h"

#include <algorithm>

namespace mebp::layout {

// Of all blocks, the place of the state of this name.
static uint64_t findState(const Facts &facts, const GenerationPlan &layout, const std::string &name) {
  for (size_t block = 0; block < facts.blocks.size(); ++block)
    for (size_t i = 0; i < facts.blocks[block]->states.size(); ++i)
      if (facts.blocks[block]->states[i].name == name)
        return layout.states[block][i].offset;
  return 0; // never: what is shared is validated
}

GenerationPlan planGeneration(const Facts &facts, bool placesValues, bool isApart) {
  GenerationPlan layout;
  Region &memory = layout.memory;
  layout.flows = planFlows(facts, isApart, memory);
  layout.remote = planRemote(facts, true, false, isApart, memory);
  uint64_t arena = 0;
  for (const auto &block : facts.blocks) {
    std::vector<StatePlace> &places = layout.states.emplace_back();
    for (const KeptState &state : block->states) {
      const uint64_t offset = memory.take(Owner::States, state.bytes);
      const uint64_t copy = state.isCarried ? memory.take(Owner::States, state.bytes) : 0;
      places.push_back({offset, state.capacity, state.rowBytes, state.window, state.isCarried, copy});
    }
    if (block->generatedRows)
      layout.rows = static_cast<uint32_t>(block->generatedRows);
    arena = std::max(arena, block->generating.arena);
  }
  for (std::vector<RemoteValue> &block : layout.remote.blocks)
    for (RemoteValue &value : block)
      if (value.kind == format::Port::SHARED)
        value.offset = findState(facts, layout, value.name);
  layout.ids = memory.take(Owner::Tokens, layout.rows * sizeof(int32_t));
  layout.wantedRows = memory.take(Owner::Tokens, layout.rows * sizeof(int32_t));
  layout.draft = memory.take(Owner::Tokens, layout.rows * sizeof(int32_t));
  layout.history = memory.take(Owner::Tokens, facts.model->history);
  layout.scratch = memory.take(Owner::Scratch, placesValues ? 0 : arena);
  return layout;
}

} // namespace mebp::layout
