// SPDX-License-Identifier: Apache-2.0
#include "layout/gradients.h"

#include <algorithm>

namespace mebp::layout {

static bool isKept(const Choice &choice, uint32_t trainable) {
  if (choice.gradients != GradientUse::Keep)
    return choice.gradients == GradientUse::Sum;
  return choice.owns(trainable) || choice.returnsGradients;
}

GradientPlan planGradients(const Facts &facts, const Choice &choice, uint64_t headBytes, uint64_t ownBytes,
                           Region &memory, Region &lane) {
  GradientPlan plan;
  plan.begin = memory.total();
  plan.scratch = lane.total();
  if (choice.forwardOnly) {
    plan.head = lane.take(Owner::Tokens, headBytes);
    return plan;
  }
  const GradientUse use = plan.use = choice.gradients;
  const std::vector<TrainableFacts> &trainables = facts.model->trainables;
  std::vector<uint32_t> left(trainables.size());
  for (const auto &block : facts.blocks)
    for (uint32_t trainable : block->gradients)
      ++left[trainable];

  Placer own;
  plan.own.assign(left.size(), noOffset);
  for (uint32_t i = 0; i < left.size(); ++i)
    if (isKept(choice, i) || left[i] > 1)
      plan.own[i] = own.take(trainables[i].gradientBytes);
  plan.ownBytes = own.total();
  plan.further = own.take((choice.treeSums - 1) * plan.ownBytes);
  plan.pending = choice.hasPending ? own.take(plan.ownBytes) : noOffset;
  plan.bytes = std::max(ownBytes, own.total());
  memory.take(Owner::Gradients, plan.bytes);

  plan.blocks.resize(facts.blocks.size());
  // A sum over micro-batches begins with zeros, any other with its first contribution.
  std::vector<bool> begun(left.size(), use == GradientUse::Sum);
  plan.areOffered = choice.offersGradients;
  const bool areAllKept =
      std::none_of(plan.own.begin(), plan.own.end(), [](uint64_t place) { return place == noOffset; });
  plan.slots = areAllKept ? 1 : choice.gradientsOut + 1;
  uint64_t slotBytes = 0;
  Placer scratch;
  for (size_t number = facts.blocks.size(); number-- > 0;) {
    if (!choice.isApart)
      scratch = Placer();
    if (number + 1 == facts.blocks.size())
      plan.head = plan.scratch + scratch.take(headBytes); // the first slot is the head's
    for (uint32_t trainable : facts.blocks[number]->gradients) {
      Contribution contribution;
      contribution.trainable = trainable;
      contribution.add = begun[trainable];
      contribution.last = --left[trainable] == 0;
      contribution.isDirect = plan.own[trainable] != noOffset && !begun[trainable];
      contribution.offset = contribution.isDirect ? 0 : scratch.take(trainables[trainable].gradientBytes);
      begun[trainable] = true;
      plan.blocks[number].push_back(contribution);
    }
    slotBytes = std::max(slotBytes, scratch.total());
  }
  for (uint32_t block = 0; block < plan.blocks.size(); ++block)
    for (Contribution &contribution : plan.blocks[block])
      contribution.offset += contribution.isDirect ? 0 : plan.slotOf(block) * slotBytes;
  plan.scratchBytes = plan.slots * slotBytes;
  lane.take(Owner::Gradients, plan.scratchBytes);
  return plan;
}

} // namespace mebp::layout
