// SPDX-License-Identifier: Apache-2.0
#include "layout/trainables.h"

#include <algorithm>
#include <numeric>

namespace mebp::layout {

// What an optimizer has of a tensor.
namespace {
struct Kept {
  uint64_t bytes, readBytes, scratch;
};
} // namespace

static std::vector<Kept> keptByShape(const Facts &facts, const Choice &choice) {
  std::vector<Kept> kept;
  for (const format::TrainedShape &shape : facts.model->shapes)
    kept.push_back({format::keptBytes(*choice.optimizer, shape, choice.state, false),
                    format::keptBytes(*choice.optimizer, shape, choice.state, true),
                    format::scratchBytes(*choice.optimizer, shape)});
  return kept;
}

// The largest first, each to the part that has least.
std::vector<bool> partOf(const Facts &facts, uint32_t index, uint32_t count) {
  const std::vector<TrainableFacts> &trainables = facts.model->trainables;
  std::vector<uint32_t> order(trainables.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t one, uint32_t other) {
    return trainables[one].gradientBytes > trainables[other].gradientBytes;
  });
  std::vector<uint64_t> bytes(count);
  std::vector<bool> part(trainables.size());
  for (uint32_t trainable : order) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += trainables[trainable].gradientBytes;
    part[trainable] = least - bytes.begin() == index;
  }
  return part;
}

TrainablePlan planTrainables(const Facts &facts, const Choice &choice, Region &memory, Region &file) {
  TrainablePlan plan;
  const std::vector<TrainableFacts> &trainables = facts.model->trainables;
  const format::OptimizerTraits &traits = *choice.optimizer;
  plan.memoryBegin = memory.total();
  plan.isKeptFiled = choice.spillsState;
  plan.areWeightsFiled = choice.spillsState && !trainables.empty() && !traits.forwardOnly;
  Region &weights = plan.areWeightsFiled ? file : memory;
  plan.begin = weights.total();
  for (const TrainableFacts &trainable : trainables) {
    const uint64_t place = plan.areWeightsFiled ? weights.takePages(Owner::Trainables, trainable.bytes)
                                                : weights.take(Owner::Trainables, trainable.bytes);
    plan.places.push_back(place - plan.begin);
    plan.weightRoom = std::max(plan.weightRoom, plan.areWeightsFiled ? trainable.bytes : 0);
  }
  plan.mappedBytes = file.total();
  plan.weightBytes = weights.total() - plan.begin;
  plan.adapters = choice.hasValueAdapter ? 2 : 1;
  for (uint32_t further = 1; further < plan.adapters; ++further)
    weights.take(Owner::Trainables, plan.weightBytes);
  plan.weightRoom = memory.take(Owner::Trainables, plan.weightRoom);
  Region &keeping = plan.isKeptFiled ? file : memory;
  plan.keptBegin = keeping.total();
  const std::vector<Kept> kept = keptByShape(facts, choice);
  if (!choice.forwardOnly)
    for (uint32_t i = 0; i < trainables.size(); ++i) {
      if (!choice.owns(i)) {
        plan.kept.push_back(noOffset);
        continue;
      }
      const auto &[bytes, readBytes, scratch] = kept[trainables[i].shapeNumber];
      plan.kept.push_back(keeping.take(Owner::OptimizerState, bytes) - plan.keptBegin);
      plan.keptRoom = std::max(plan.keptRoom, plan.isKeptFiled ? bytes : 0);
      plan.scratch = std::max(plan.scratch, scratch);
    }
  plan.keptBytes = keeping.total() - plan.keptBegin;
  for (uint32_t further = 1; further < plan.adapters; ++further)
    keeping.take(Owner::OptimizerState, plan.keptBytes);
  plan.readBegin = memory.total();
  for (uint32_t i = 0; i < plan.kept.size(); ++i)
    plan.read.push_back(memory.take(Owner::OptimizerState, kept[trainables[i].shapeNumber].readBytes) - plan.readBegin);
  plan.readBytes = memory.total() - plan.readBegin;
  plan.keptRoom = memory.take(Owner::OptimizerState, plan.keptRoom);
  plan.scratch = memory.take(Owner::OptimizerState, plan.scratch);
  plan.memoryEnd = memory.total();
  return plan;
}

} // namespace mebp::layout
