// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "runtime/core/status.h"

namespace mebp {

// A request to end the call that runs, from any thread or from a signal's handler. Kernels are not interrupted: who
// runs them looks here before each.
class Cancellation {
public:
  void request() { requested.store(true, std::memory_order_relaxed); }
  bool isDue() const { return heeded && requested.load(std::memory_order_relaxed); }
  Status refusal() const { return failure(MEBP_CANCELLED, "the call was cancelled; nothing has changed"); }

  // Of the thread that runs: whether a request still ends the call. One that comes too late ends the next.
  void heed(bool heeds) { heeded = heeds; }
  // The request has been followed, or taken back.
  void settle() { requested.store(false, std::memory_order_relaxed); }

private:
  std::atomic<bool> requested{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler may store it");
  bool heeded = true;
};

} // namespace mebp
