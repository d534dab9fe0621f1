// SPDX-License-Identifier: Apache-2.0
//
// Gradients that the caller of a step may change, or take away for a while: to reduce them over machines (mebp.h,
// on_gradient).
//
// 1. A gradient that is complete is offered. What the caller leaves goes on to the next sink at once.
// 2. What it takes stays where it lies until any thread gives it back; the step's own thread then passes it on.
// 3. Where gradients are applied at once, blocks that are gradients_out + 1 apart share a place (layout/gradients.h). A
//    backward waits until what its place holds has gone on, and the step until all has.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "mebp/mebp.h"
#include "runtime/core/cancellation.h"
#include "runtime/core/status.h"
#include "runtime/train/gradients.h"

namespace mebp {

class Handover {
public:
  void create(const format::Bundle &bundle, const mebp_session_options &options, const layout::GradientPlan &plan,
              const Cancellation &sessionCancellation);
  bool isAsked() const { return callback; }

  // Before the first gradient of a step: nothing has been offered.
  void begin();
  Status offer(uint32_t trainable, float *gradient, GradientSink &next);
  bool isOffered(uint32_t trainable);
  // Passes on what has come back, and waits for the rest: of what lies in this slot of the scratch, and of all.
  Status settleSlot(uint32_t slot, GradientSink &next);
  Status settleAll(GradientSink &next);
  // In which order they were offered.
  const std::vector<uint32_t> &offered() const { return order; }

  // Any thread's.
  Status give(uint32_t trainable);

private:
  enum class Place { Before, Taken, Given, Passed };
  struct Entry {
    Place place = Place::Before;
    float *gradient = nullptr;
    uint32_t slot = noSlot; // of those that blocks share; noSlot: it has memory of its own
  };
  static constexpr uint32_t noSlot = UINT32_MAX;
  template <typename Wanted> Status settle(const Wanted &isWanted, GradientSink &next);

  const format::Bundle *bundle = nullptr;
  mebp_on_gradient callback = nullptr;
  void *user = nullptr;
  const Cancellation *cancellation = nullptr;
  std::vector<uint32_t> order;
  std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::vector<Entry> entries;
};

// Offers what it takes, before the next sink does.
class OfferSink final : public GradientSink {
public:
  OfferSink(Handover &handover, GradientSink &next) : handover(handover), next(next) {}
  Status take(uint32_t trainable, float *gradient) override {
    return handover.isAsked() ? handover.offer(trainable, gradient, next) : next.take(trainable, gradient);
  }

private:
  Handover &handover;
  GradientSink &next;
};

} // namespace mebp
