// SPDX-License-Identifier: Apache-2.0
#include "layout/gradients.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::layout {

// The trainables that a block's programs give gradients of, in the order of their outputs.
static std::vector<uint32_t> gradientsOf(const format::Bundle &bundle, const format::Block &block) {
  std::vector<uint32_t> trainables;
  for (int32_t number : gradientProgramsOf(block))
    for (const format::Port &output : bundle.programs(number).outputs())
      if (output.kind() == format::Port::GRADIENT)
        trainables.push_back(findParameter(block, output.name())->trainable());
  return trainables;
}

GradientPlan planGradients(const format::Bundle &bundle, const Choice &choice, uint64_t headBytes, uint64_t ownBytes,
                           Placer &memory, Placer &lane) {
  GradientPlan plan;
  plan.begin = memory.total();
  plan.scratch = lane.total();
  if (choice.forwardOnly) {
    plan.head = lane.take(headBytes);
    return plan;
  }
  const GradientUse use = plan.use = choice.gradients;
  std::vector<uint32_t> left(static_cast<size_t>(bundle.trainables_size()));
  for (const format::Block &block : bundle.blocks())
    for (uint32_t trainable : gradientsOf(bundle, block))
      ++left[trainable];

  Placer own;
  plan.own.assign(left.size(), noOffset);
  for (uint32_t i = 0; i < left.size(); ++i)
    if (use != GradientUse::Apply || left[i] > 1)
      plan.own[i] = own.take(gradientBytes(bundle, i));
  plan.ownBytes = own.total();
  plan.pending = choice.hasPending ? own.take(plan.ownBytes) : noOffset;
  plan.bytes = std::max(ownBytes, own.total());
  memory.take(plan.bytes);

  plan.blocks.resize(static_cast<size_t>(bundle.blocks_size()));
  // A sum over micro-batches begins with zeros, any other with its first contribution.
  std::vector<bool> begun(left.size(), use == GradientUse::Sum);
  for (int number = bundle.blocks_size() - 1; number >= 0; --number) {
    Placer scratch;
    if (number + 1 == bundle.blocks_size())
      plan.head = plan.scratch + scratch.take(headBytes);
    for (uint32_t trainable : gradientsOf(bundle, bundle.blocks(number))) {
      Contribution contribution;
      contribution.trainable = trainable;
      contribution.add = begun[trainable];
      contribution.last = --left[trainable] == 0;
      contribution.isDirect = plan.own[trainable] != noOffset && !begun[trainable];
      contribution.offset = contribution.isDirect ? 0 : scratch.take(gradientBytes(bundle, trainable));
      begun[trainable] = true;
      plan.blocks[static_cast<size_t>(number)].push_back(contribution);
    }
    plan.scratchBytes = std::max(plan.scratchBytes, scratch.total());
  }
  lane.take(plan.scratchBytes);
  return plan;
}

} // namespace mebp::layout
