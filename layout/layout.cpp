// SPDX-License-Identifier: Apache-2.0
#include "layout/layout.h"

#include <algorithm>

#include "format/residency.h"

namespace mebp::layout {

static uint64_t largestArena(const Facts &facts, bool forwardOnly) {
  uint64_t largest = 0;
  for (const auto &block : facts.blocks)
    largest = std::max(largest, forwardOnly ? block->training.forwardArena : block->training.arena);
  return largest;
}

// What only a session that runs steps has.
static void planStep(const Facts &facts, const Choice &choice, Layout &layout) {
  Region &lane = layout.lane.memory;
  layout.lane.checkpoints = planCheckpoints(facts, choice, lane, layout.file);
  layout.lane.remote = planRemote(facts, false, !choice.forwardOnly, choice.isApart, lane);
  layout.trainables = planTrainables(facts, choice, layout.memory, layout.file);
  Placer head;
  std::array<uint64_t, std::size(format::stepPorts)> &stepPorts = layout.lane.stepPorts;
  for (size_t i = 0; i < stepPorts.size(); ++i)
    if (const uint64_t bytes = facts.model->stepPorts[i])
      stepPorts[i] = format::stepPorts[i].ofHead ? head.take(bytes) : lane.take(Owner::Tokens, bytes);
  // Nothing else is summed up while subspaces are found over micro-batches.
  const uint64_t sumBytes = subspaceSumBytes(facts, choice);
  const uint64_t ownBytes = choice.isApart ? 0 : sumBytes;
  layout.gradients = planGradients(facts, choice, head.total(), ownBytes, layout.memory, lane);
  const uint64_t sumsBegin = choice.isApart ? layout.memory.take(Owner::Subspaces, sumBytes) : layout.gradients.begin;
  layout.subspaces = planSubspaces(facts, choice, sumsBegin, layout.memory);
  for (size_t i = 0; i < stepPorts.size(); ++i)
    if (format::stepPorts[i].ofHead && stepPorts[i] != noOffset)
      stepPorts[i] += layout.gradients.head;
}

Layout planSession(const Facts &facts, const Choice &choice) {
  Layout layout;
  Region &memory = layout.memory;
  layout.lane.stepPorts.fill(noOffset);
  if (choice.generateOnly)
    layout.trainables = planTrainables(facts, choice, memory, layout.file);
  else
    planStep(facts, choice, layout);
  layout.lane.wire = layout.lane.memory.take(Owner::Wire, facts.model->wire);
  layout.lanes = memory.take(layout.lane.memory);
  for (uint32_t further = 1; further < choice.lanes; ++further)
    memory.take(layout.lane.memory);
  if (!choice.generateOnly && !choice.placesValues)
    layout.scratch = memory.take(Owner::Scratch, largestArena(facts, choice.forwardOnly));
  layout.workspace = memory.take(Owner::Workspace, choice.workspace);
  if (choice.limitsResidency)
    layout.residency = memory.take(Owner::Residency, format::residencyBytes(facts.model->weights));
  return layout;
}

} // namespace mebp::layout
