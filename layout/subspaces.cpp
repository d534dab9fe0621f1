// SPDX-License-Identifier: Apache-2.0
#include "layout/subspaces.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::layout {

static bool findsSubspaces(const Choice &choice) { return choice.optimizer->projects && !choice.forwardOnly; }

// Of the trainables of a block that its programs project.
static std::vector<ThinPlaces> placeThin(const format::Bundle &bundle, const format::Block &block, Placer &shared,
                                         Placer &sums) {
  std::vector<ThinPlaces> all;
  if (programOf(block, format::rangeProgram) == format::noProgram)
    return all;
  for (const format::Parameter &parameter : block.parameters()) {
    if (!parameter.has_trainable())
      continue;
    const format::TrainedShape shape = trainedShape(bundle, parameter.trainable());
    if (shape.rank == 0)
      continue;
    const uint64_t width = sketchRank(shape);
    ThinPlaces thin;
    thin.trainable = parameter.trainable();
    thin.sketchElements = format::smallerSide(shape.rows, shape.columns) * width;
    thin.rangeElements = std::max(shape.rows, shape.columns) * width;
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
static void groupGradients(const format::Bundle &bundle, std::vector<ThinPlaces> &all, uint64_t room) {
  Placer placer;
  uint32_t group = 0;
  for (ThinPlaces &thin : all) {
    const uint64_t bytes = wholeBytes(trainedShape(bundle, thin.trainable));
    if (placer.total() + bytes > room) {
      placer = Placer();
      ++group;
    }
    thin.group = group;
    thin.whole = placer.take(bytes);
  }
}

uint64_t subspaceSumBytes(const format::Bundle &bundle, const Choice &choice) {
  Placer shared, sums;
  if (choice.gradients == GradientUse::Sum && findsSubspaces(choice) && !choice.isBySvd)
    for (const format::Block &block : bundle.blocks())
      placeThin(bundle, block, shared, sums);
  return sums.total();
}

SubspacePlan planSubspaces(const format::Bundle &bundle, const Choice &choice, uint64_t sumsBegin, Placer &memory) {
  SubspacePlan plan;
  plan.begin = memory.total();
  plan.sumsBegin = sumsBegin;
  if (!findsSubspaces(choice))
    return plan;
  plan.isExact = choice.isBySvd;
  uint64_t most = 0, room = 0, workspace = 0;
  Placer sums;
  for (const format::Block &block : bundle.blocks()) {
    Placer shared;
    plan.blocks.push_back(placeThin(bundle, block, shared, sums));
    most = std::max(most, shared.total());
    for (const ThinPlaces &thin : plan.blocks.back()) {
      const format::TrainedShape shape = trainedShape(bundle, thin.trainable);
      workspace = std::max(workspace, plan.isExact ? svdWorkspaceBytes(shape) : sketchWorkspaceBytes(shape));
      room = std::max(room, plan.isExact ? format::alignUp(wholeBytes(shape)) : 0);
    }
  }
  if (plan.isExact)
    for (std::vector<ThinPlaces> &all : plan.blocks)
      groupGradients(bundle, all, room);
  plan.room = most;
  plan.workspace = most + room;
  plan.bytes = plan.workspace + workspace;
  memory.take(plan.bytes);
  return plan;
}

} // namespace mebp::layout
