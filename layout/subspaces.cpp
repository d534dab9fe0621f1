// SPDX-License-Identifier: Apache-2.0
#include "layout/subspaces.h"

#include <algorithm>

namespace mebp::layout {

static bool findsSubspaces(const Choice &choice) { return choice.optimizer->projects && !choice.forwardOnly; }

// Of the trainables of a block that its programs project.
static std::vector<ThinPlaces> placeThin(const Facts &facts, const BlockFacts &block, Placer &shared, Placer &sums) {
  std::vector<ThinPlaces> all;
  for (uint32_t trainable : block.projected) {
    const format::TrainedShape &shape = facts.model->trainables[trainable].shape;
    const uint64_t width = sketchRank(shape);
    ThinPlaces thin;
    thin.trainable = trainable;
    thin.sketchElements = format::smallerSide(shape.rows, shape.columns) * width;
    thin.rangeElements = std::max(shape.rows, shape.columns) * width;
    thin.wholeElements = shape.elements();
    thin.sketch = shared.take(thin.sketchElements * sizeof(float));
    thin.range = shared.take(thin.rangeElements * sizeof(float));
    thin.keptSketch = sums.take(thin.sketchElements * sizeof(float));
    thin.keptRange = sums.take(thin.rangeElements * sizeof(float));
    all.push_back(thin);
  }
  return all;
}

static uint64_t wholeBytes(const format::TrainedShape &shape) { return shape.elements() * sizeof(float); }

// Groups of a block's matrices, one after another, each of the room's size at most.
static void groupGradients(const Facts &facts, std::vector<ThinPlaces> &all, uint64_t room) {
  Placer placer;
  uint32_t group = 0;
  for (ThinPlaces &thin : all) {
    const uint64_t bytes = wholeBytes(facts.model->trainables[thin.trainable].shape);
    if (placer.total() + bytes > room) {
      placer = Placer();
      ++group;
    }
    thin.group = group;
    thin.whole = placer.take(bytes);
  }
}

uint64_t subspaceSumBytes(const Facts &facts, const Choice &choice) {
  Placer shared, sums;
  if (choice.gradients == GradientUse::Sum && findsSubspaces(choice) && !choice.isBySvd)
    for (const auto &block : facts.blocks)
      placeThin(facts, *block, shared, sums);
  return choice.treeSums * sums.total();
}

SubspacePlan planSubspaces(const Facts &facts, const Choice &choice, uint64_t sumsBegin, Region &memory) {
  SubspacePlan plan;
  plan.begin = memory.total();
  plan.sumsBegin = sumsBegin;
  if (!findsSubspaces(choice))
    return plan;
  plan.isExact = choice.isBySvd;
  uint64_t most = 0, room = 0, workspace = 0;
  Placer sums;
  Placer shared;
  for (const auto &block : facts.blocks) {
    if (!choice.isApart)
      shared = Placer();
    plan.blocks.push_back(placeThin(facts, *block, shared, sums));
    most = std::max(most, shared.total());
    for (const ThinPlaces &thin : plan.blocks.back()) {
      const format::TrainedShape &shape = facts.model->trainables[thin.trainable].shape;
      workspace = std::max(workspace, plan.isExact ? svdWorkspaceBytes(shape) : sketchWorkspaceBytes(shape));
      room = std::max(room, plan.isExact ? format::alignUp(wholeBytes(shape)) : 0);
    }
  }
  if (plan.isExact)
    for (std::vector<ThinPlaces> &all : plan.blocks)
      groupGradients(facts, all, room);
  plan.room = most;
  plan.sumBytes = plan.isExact ? room : sums.total();
  plan.workspace = most + choice.treeSums * room;
  plan.bytes = plan.workspace + workspace;
  memory.take(Owner::Subspaces, plan.bytes);
  return plan;
}

} // namespace mebp::layout
