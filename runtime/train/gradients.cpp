// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/gradients.h"

#include <cstring>

#include "format/lookup.h"

namespace mebp {

void Gradients::create(const format::Bundle &content, layout::GradientPlan planned, unsigned char *sessionMemory,
                       unsigned char *laneMemory, bool isFresh, const MemoryCheck &memoryCheck) {
  bundle = &content;
  check = memoryCheck;
  plan = std::move(planned);
  memory = sessionMemory + plan.begin;
  scratch = laneMemory + plan.scratch;
  if (isFresh)
    return;
  std::memset(memory, 0, plan.bytes);
  std::memset(scratch, 0, plan.scratchBytes);
}

void Gradients::clearSums() {
  newest = 0;
  place = TreePlace();
  hasSeveralBackwards = false;
  if (plan.use == layout::GradientUse::Sum)
    std::memset(memory, 0, plan.ownBytes);
  if (plan.use == layout::GradientUse::Sum && hasPending())
    std::memset(memory + plan.pending, 0, plan.ownBytes);
}

void Gradients::beginInTree(uint32_t index, uint32_t count, bool hasSeveral) {
  place = TreePlace::of(index, count);
  newest = sumAt(place.slot);
  hasSeveralBackwards = hasSeveral;
  std::memset(memory + newest, 0, plan.ownBytes);
}

void Gradients::endInTree(bool isSkipped) {
  if (isSkipped || hasSeveralBackwards)
    mergeInTree(0, plan.ownBytes / sizeof(float));
  newest = 0;
  place = TreePlace();
  hasSeveralBackwards = false;
}

void Gradients::mergeInTree(uint64_t begin, uint64_t count) const {
  for (uint32_t number = place.slot; number > place.slot - place.meets; --number) {
    const float *later = at(sumAt(number) + begin);
    float *earlier = at(sumAt(number - 1) + begin);
    for (uint64_t i = 0; i < count; ++i)
      earlier[i] += later[i];
  }
}

void Gradients::settle(float factor) {
  float *sum = at(newest), *pending = hasPending() ? at(plan.pending) : sum;
  const uint64_t count = plan.ownBytes / sizeof(float);
  for (uint64_t i = 0; i < count; ++i)
    sum[i] = hasPending() ? sum[i] + factor * pending[i] : factor * sum[i];
  if (hasPending())
    std::memset(pending, 0, plan.ownBytes);
}

Status Gradients::deliver(uint32_t block, GradientSink &sink) {
  for (const layout::Contribution &contribution : plan.blocks[block]) {
    float *gradient = placeOf(contribution);
    if (contribution.add) {
      float *sum = at((isToPending ? plan.pending : newest) + plan.own[contribution.trainable]);
      uint64_t count = gradientElements(*bundle, contribution.trainable);
      for (uint64_t i = 0; i < count; ++i)
        sum[i] += gradient[i];
      gradient = sum;
    }
    if (contribution.last && place.meets && !hasSeveralBackwards) {
      mergeInTree(plan.own[contribution.trainable], gradientElements(*bundle, contribution.trainable));
      gradient = at(sumAt(place.slot - place.meets) + plan.own[contribution.trainable]);
    }
    if (contribution.last)
      if (Status status = sink.take(contribution.trainable, gradient); !status.ok())
        return status;
    if (!contribution.isDirect && !plan.areOffered)
      check.clear(placeOf(contribution), gradientElements(*bundle, contribution.trainable) * sizeof(float));
  }
  return Status();
}

} // namespace mebp
