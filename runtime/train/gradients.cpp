// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/gradients.h"

#include <algorithm>
#include <cstring>

#include "format/lookup.h"
#include "runtime/backends/backends.h"
#include "runtime/train/options.h"
#include "runtime/train/trainables.h"

namespace mebp {

static GradientUse gradientUseOf(const format::Bundle &bundle, const mebp_session_options &options) {
  if (options.accumulate)
    return GradientUse::Sum;
  bool areKept = options.return_gradients || (options.clip > 0 && !options.clip_recompute) ||
                 findBackend(options.backend)->isForeign || bundle.has_split();
  return areKept ? GradientUse::Keep : GradientUse::Apply;
}

// The trainables that a block's programs give gradients of, in the order of their outputs.
static std::vector<uint32_t> gradientsOf(const format::Bundle &bundle, const format::Block &block) {
  std::vector<uint32_t> trainables;
  for (int32_t number : gradientProgramsOf(block))
    for (const format::Port &output : bundle.programs(number).outputs())
      if (output.kind() == format::Port::GRADIENT)
        trainables.push_back(findParameter(block, output.name())->trainable());
  return trainables;
}

GradientPlan planGradients(const format::Bundle &bundle, const mebp_session_options &options, uint64_t headBytes,
                           uint64_t ownBytes, Placer &memory, Placer &lane) {
  GradientPlan plan;
  plan.begin = memory.total();
  plan.scratch = lane.total();
  if (isForwardOnly(options)) {
    plan.head = lane.take(headBytes);
    return plan;
  }
  GradientUse use = plan.use = gradientUseOf(bundle, options);
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
  plan.pending = options.pending_gradients ? own.take(plan.ownBytes) : noOffset;
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

void Gradients::create(const format::Bundle &content, GradientPlan planned, unsigned char *sessionMemory,
                       unsigned char *laneMemory, bool isFresh) {
  bundle = &content;
  plan = std::move(planned);
  memory = sessionMemory + plan.begin;
  scratch = laneMemory + plan.scratch;
  if (isFresh)
    return;
  std::memset(memory, 0, plan.bytes);
  std::memset(scratch, 0, plan.scratchBytes);
}

void Gradients::clearSums() {
  if (plan.use == GradientUse::Sum)
    std::memset(memory, 0, plan.ownBytes);
  if (plan.use == GradientUse::Sum && hasPending())
    std::memset(memory + plan.pending, 0, plan.ownBytes);
}

void Gradients::settle(float factor) {
  float *sum = at(0), *pending = hasPending() ? at(plan.pending) : sum;
  const uint64_t count = plan.ownBytes / sizeof(float);
  for (uint64_t i = 0; i < count; ++i)
    sum[i] = hasPending() ? sum[i] + factor * pending[i] : factor * sum[i];
  if (hasPending())
    std::memset(pending, 0, plan.ownBytes);
}

Status Gradients::deliver(uint32_t block, GradientSink &sink) {
  for (const Contribution &contribution : plan.blocks[block]) {
    float *gradient = placeOf(contribution);
    if (contribution.add) {
      float *sum = at(ownBegin + plan.own[contribution.trainable]);
      uint64_t count = gradientElements(*bundle, contribution.trainable);
      for (uint64_t i = 0; i < count; ++i)
        sum[i] += gradient[i];
      gradient = sum;
    }
    if (contribution.last)
      if (Status status = sink.take(contribution.trainable, gradient); !status.ok())
        return status;
  }
  return Status();
}

} // namespace mebp
