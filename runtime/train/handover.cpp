// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/handover.h"

#include <chrono>

#include "format/lookup.h"

namespace mebp {

void Handover::create(const format::Bundle &content, const mebp_session_options &options,
                      const layout::GradientPlan &plan, const Cancellation &sessionCancellation) {
  bundle = &content;
  callback = options.on_gradient;
  user = options.gradient_user;
  cancellation = &sessionCancellation;
  if (!callback)
    return;
  entries.resize(static_cast<size_t>(content.trainables_size()));
  order.reserve(entries.size());
  for (uint32_t block = 0; block < plan.blocks.size(); ++block)
    for (const layout::Contribution &contribution : plan.blocks[block])
      if (plan.own[contribution.trainable] == layout::noOffset)
        entries[contribution.trainable].slot = plan.slotOf(block);
}

void Handover::begin() {
  const std::lock_guard<std::mutex> lock(mutex);
  order.clear();
  for (Entry &entry : entries)
    entry.place = Place::Before;
}

Status Handover::offer(uint32_t trainable, float *gradient, GradientSink &next) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    entries[trainable].gradient = gradient;
    entries[trainable].place = Place::Taken; // perhaps it comes back before the callback has ended
    order.push_back(trainable);
  }
  bool isTaken = false;
  const mebp_code code = callback(user, trainable, gradient, gradientElements(*bundle, trainable), &isTaken);
  if (code != MEBP_OK)
    return failure(code, "on_gradient has failed at '%s'",
                   bundle->trainables(static_cast<int>(trainable)).name().c_str());
  if (isTaken)
    return Status();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    entries[trainable].place = Place::Passed;
  }
  return next.take(trainable, gradient);
}

bool Handover::isOffered(uint32_t trainable) {
  const std::lock_guard<std::mutex> lock(mutex);
  return entries[trainable].place != Place::Before;
}

Status Handover::give(uint32_t trainable) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (trainable >= entries.size() || entries[trainable].place != Place::Taken)
    return failure(MEBP_INVALID_ARGUMENT, "gradient %u has not been taken, or has been given back", trainable);
  entries[trainable].place = Place::Given;
  changed.notify_all();
  return Status();
}

template <typename Wanted> Status Handover::settle(const Wanted &isWanted, GradientSink &next) {
  constexpr std::chrono::milliseconds beforeLooking(50); // at a request to end the call
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    bool isOut = false;
    for (uint32_t trainable : order) {
      Entry &entry = entries[trainable];
      if (!isWanted(entry))
        continue;
      isOut |= entry.place == Place::Taken;
      if (entry.place != Place::Given)
        continue;
      entry.place = Place::Passed;
      lock.unlock();
      if (Status status = next.take(trainable, entry.gradient); !status.ok())
        return status;
      lock.lock();
    }
    if (!isOut)
      return Status();
    if (cancellation->isDue())
      return cancellation->refusal();
    changed.wait_for(lock, beforeLooking);
  }
}

Status Handover::settleSlot(uint32_t slot, GradientSink &next) {
  return settle([&](const Entry &entry) { return entry.slot == slot; }, next);
}

Status Handover::settleAll(GradientSink &next) {
  return settle([](const Entry &) { return true; }, next);
}

} // namespace mebp
