// SPDX-License-Identifier: Apache-2.0
#include "layout/trainables.h"

#include <algorithm>

namespace mebp::layout {

TrainablePlan planTrainables(const format::Bundle &bundle, const Choice &choice, Placer &memory, Placer &file) {
  TrainablePlan plan;
  const auto count = static_cast<uint32_t>(bundle.trainables_size());
  const format::OptimizerTraits &traits = *choice.optimizer;
  plan.memoryBegin = memory.total();
  plan.isKeptFiled = choice.spillsState;
  plan.areWeightsFiled = choice.spillsState && count > 0 && !traits.forwardOnly;
  Placer &weights = plan.areWeightsFiled ? file : memory;
  plan.begin = weights.total();
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t bytes = WeightParts(bundle, i).bytes();
    plan.places.push_back((plan.areWeightsFiled ? weights.takePages(bytes) : weights.take(bytes)) - plan.begin);
    plan.weightRoom = std::max(plan.weightRoom, plan.areWeightsFiled ? bytes : 0);
  }
  plan.mappedBytes = file.total();
  plan.weightBytes = weights.total() - plan.begin;
  plan.adapters = choice.hasValueAdapter ? 2 : 1;
  for (uint32_t further = 1; further < plan.adapters; ++further)
    weights.take(plan.weightBytes);
  plan.weightRoom = memory.take(plan.weightRoom);
  Placer &keeping = plan.isKeptFiled ? file : memory;
  plan.keptBegin = keeping.total();
  for (uint32_t i = 0; i < count && !choice.forwardOnly; ++i) {
    const format::TrainedShape shape = trainedShape(bundle, i);
    const uint64_t bytes = format::keptBytes(traits, shape, choice.state, false);
    plan.kept.push_back(keeping.take(bytes) - plan.keptBegin);
    plan.keptRoom = std::max(plan.keptRoom, plan.isKeptFiled ? bytes : 0);
    plan.scratch = std::max(plan.scratch, format::scratchBytes(traits, shape));
  }
  plan.keptBytes = keeping.total() - plan.keptBegin;
  for (uint32_t further = 1; further < plan.adapters; ++further)
    keeping.take(plan.keptBytes);
  plan.readBegin = memory.total();
  for (uint32_t i = 0; i < plan.kept.size(); ++i)
    plan.read.push_back(memory.take(format::keptBytes(traits, trainedShape(bundle, i), choice.state, true)) -
                        plan.readBegin);
  plan.keptRoom = memory.take(plan.keptRoom);
  plan.scratch = memory.take(plan.scratch);
  plan.memoryEnd = memory.total();
  return plan;
}

} // namespace mebp::layout
