// SPDX-License-Identifier: Apache-2.0
#include "layout/checkpoints.h"

#include <algorithm>

namespace mebp::layout {

static void placeInFile(CheckpointPlan &plan, uint32_t count, Region &file) {
  for (uint32_t i = plan.first; i < count; ++i)
    plan.places.push_back(file.takePages(Owner::Checkpoints, plan.bytes));
}

// Of half a model: each layer keeps its input that runs here and that a backward comes to.
static void placeWhereRun(CheckpointPlan &plan, const Facts &facts, Region &memory) {
  for (uint32_t layer = plan.first + 1; layer <= facts.layers(); ++layer)
    plan.places.push_back(facts.blocks[layer]->runsHere ? memory.take(Owner::Checkpoints, plan.bytes) : noOffset);
}

static void placeInSegments(CheckpointPlan &plan, uint32_t count, const Choice &choice, Region &memory) {
  const uint32_t read = count - plan.first;
  plan.spacing = std::clamp(choice.spacing, 1u, std::max(read, 1u));
  plan.missing = (plan.spacing - read % plan.spacing) % plan.spacing;
  std::vector<uint64_t> shared(plan.spacing, noOffset);
  for (uint32_t i = plan.first; i < count; ++i) {
    uint64_t own = noOffset;
    uint64_t &place = plan.isKept(i) ? own : shared[plan.placeInSegment(i)];
    if (place == noOffset || choice.isApart)
      place = memory.take(Owner::Checkpoints, plan.bytes);
    plan.places.push_back(place);
  }
}

// What flows behind any block has the room of the widest.
static CheckpointPlan beginPlan(const Facts &facts, bool generates) {
  CheckpointPlan plan;
  plan.gathered = facts.model->isGathered;
  for (const auto &block : facts.blocks)
    plan.bytes = std::max(plan.bytes, block->programs(generates).behind.bytes);
  return plan;
}

static void placeFlows(CheckpointPlan &plan, const Facts &facts, bool generates, bool isApart, Region &memory) {
  const bool inPlace = !isApart && std::all_of(facts.blocks.begin(), facts.blocks.end(), [&](const auto &block) {
    return block->programs(generates).flowsInPlace;
  });
  plan.flow[0] = memory.take(Owner::Flows, plan.bytes);
  plan.flow[1] = inPlace ? plan.flow[0] : memory.take(Owner::Flows, plan.bytes);
}

// The last segment is whole, and of the first its beginning may be missing, where it is computed from the ids.
uint64_t placesOf(uint64_t checkpoints, uint64_t spacing, bool areAll) {
  const uint64_t segment = std::clamp<uint64_t>(spacing, 1, std::max<uint64_t>(checkpoints, 1));
  return checkpoints / segment + segment - 1 + (!areAll && checkpoints % segment != 0 ? 1 : 0);
}

CheckpointPlan planCheckpoints(const Facts &facts, const Choice &choice, Region &memory, Region &file) {
  CheckpointPlan plan = beginPlan(facts, false);
  plan.forwardOnly = choice.forwardOnly;
  plan.spilled = choice.spillsCheckpoints && !plan.forwardOnly;
  plan.first = plan.forwardOnly ? facts.layers() : facts.layersBelow();
  plan.places.assign(plan.first, noOffset);
  if (facts.model->isSplit)
    placeWhereRun(plan, facts, memory);
  else if (plan.spilled)
    placeInFile(plan, facts.layers(), file);
  else
    placeInSegments(plan, facts.layers(), choice, memory);
  placeFlows(plan, facts, false, choice.isApart, memory);
  return plan;
}

CheckpointPlan planFlows(const Facts &facts, bool isApart, Region &memory) {
  CheckpointPlan plan = beginPlan(facts, true);
  plan.forwardOnly = true;
  plan.places.assign(facts.layers(), noOffset);
  placeFlows(plan, facts, true, isApart, memory);
  return plan;
}

} // namespace mebp::layout
