// SPDX-License-Identifier: Apache-2.0
#include "layout/generation.h"

#include <algorithm>

namespace mebp::layout {

GenerationPlan planGeneration(const Facts &facts, bool placesValues, bool isApart) {
  GenerationPlan layout;
  Region &memory = layout.memory;
  layout.flows = planFlows(facts, isApart, memory);
  layout.remote = planRemote(facts, true, false, isApart, memory);
  uint64_t arena = 0;
  for (const auto &block : facts.blocks) {
    std::vector<StatePlace> &places = layout.states.emplace_back();
    for (const KeptState &state : block->states)
      places.push_back(
          {memory.take(Owner::States, state.bytes), state.capacity, state.rowBytes, state.window, state.isCarried});
    if (block->generatedRows)
      layout.rows = static_cast<uint32_t>(block->generatedRows);
    arena = std::max(arena, block->generating.arena);
  }
  layout.ids = memory.take(Owner::Tokens, layout.rows * sizeof(int32_t));
  layout.wantedRows = memory.take(Owner::Tokens, layout.rows * sizeof(int32_t));
  layout.history = memory.take(Owner::Tokens, facts.model->history);
  layout.scratch = memory.take(Owner::Scratch, placesValues ? 0 : arena);
  return layout;
}

} // namespace mebp::layout
