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

static Kept keptOf(const format::TrainedShape &shape, const Choice &choice) {
  return {format::keptBytes(*choice.optimizer, shape, choice.state, false),
          format::keptBytes(*choice.optimizer, shape, choice.state, true),
          format::scratchBytes(*choice.optimizer, shape)};
}

static std::vector<Kept> keptByShape(const Facts &facts, const Choice &choice) {
  std::vector<Kept> kept;
  for (const format::TrainedShape &shape : facts.model->shapes)
    kept.push_back(keptOf(shape, choice));
  return kept;
}

// The largest first. What is cut has whole tiles in each part, one more in those that have least; of the others each
// goes whole to the part that has least.
std::vector<ElementRange> partOf(const Facts &facts, const format::OptimizerTraits *cutBy, uint32_t index,
                                 uint32_t count) {
  const std::vector<TrainableFacts> &trainables = facts.model->trainables;
  std::vector<uint32_t> order(trainables.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t one, uint32_t other) {
    return trainables[one].gradientBytes > trainables[other].gradientBytes;
  });
  const bool cuts = cutBy && format::goesByElement(*cutBy);
  std::vector<uint64_t> bytes(count);
  std::vector<ElementRange> part(trainables.size());
  for (uint32_t trainable : order) {
    const TrainableFacts &dealt = trainables[trainable];
    const uint64_t elements = dealt.shape.elements(), tiles = format::normTilesOf(elements);
    if (!cuts || dealt.isInt8 || tiles < count) {
      const auto least = std::min_element(bytes.begin(), bytes.end());
      *least += dealt.gradientBytes;
      if (least - bytes.begin() == index)
        part[trainable] = {0, elements};
      continue;
    }
    std::vector<uint32_t> byBytes(count);
    std::iota(byBytes.begin(), byBytes.end(), 0);
    std::stable_sort(byBytes.begin(), byBytes.end(),
                     [&](uint32_t one, uint32_t other) { return bytes[one] < bytes[other]; });
    std::vector<uint64_t> tilesOf(count, tiles / count);
    for (uint32_t i = 0; i < tiles % count; ++i)
      ++tilesOf[byBytes[i]];
    uint64_t begin = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t end = std::min(begin + tilesOf[i] * format::normTile(elements), elements);
      bytes[i] += (end - begin) * sizeof(float);
      if (i == index)
        part[trainable] = {begin, end};
      begin = end;
    }
  }
  return part;
}

format::TrainedShape keptShape(const format::TrainedShape &whole, const ElementRange &owned) {
  return owned.count() == whole.elements() ? whole : format::TrainedShape{1, owned.count(), 0};
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
      if (!choice.owns(i)) { // what programs read of it is found here all the same
        plan.kept.push_back(noOffset);
        plan.scratch = std::max(plan.scratch, traits.projects ? kept[trainables[i].shapeNumber].scratch : 0);
        continue;
      }
      const format::TrainedShape &shape = trainables[i].shape;
      const bool isCut = !choice.owned.empty() && choice.owned[i].count() != shape.elements();
      const auto [bytes, readBytes, scratch] =
          isCut ? keptOf(keptShape(shape, choice.owned[i]), choice) : kept[trainables[i].shapeNumber];
      plan.kept.push_back(keeping.take(Owner::OptimizerState, bytes) - plan.keptBegin);
      plan.keptRoom = std::max(plan.keptRoom, plan.isKeptFiled ? bytes : 0);
      plan.scratch = std::max(plan.scratch, scratch);
    }
  plan.owned = choice.owned;
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
