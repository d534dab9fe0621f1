// SPDX-License-Identifier: Apache-2.0
//
// What the C API's opaque bundle and session are.
#pragma once

#include <atomic>

#include "runtime/api/edge.h"
#include "runtime/bundle/bundle.h"
#include "runtime/train/session.h"

struct mebp_bundle {
  mebp::Bundle bundle;
};

struct mebp_session {
  mebp::Session session;
  mutable std::atomic<bool> inUse{false};
  std::atomic<uint64_t> steps{0}; // those of the session, for any thread
};

namespace mebp {

// Runs `body` on the session of `handle`, which no other thread may use meanwhile.
template <typename Handle, typename Body>
mebp_code withSession(Handle *handle, mebp_error *error, std::initializer_list<Argument> arguments, const Body &body) {
  return guarded(error, {{"session", handle}}, [&] {
    if (handle->inUse.exchange(true, std::memory_order_acquire))
      return failure(MEBP_BUSY, "the session is in use by another thread; call it from one thread at a time");
    struct Release {
      std::atomic<bool> &inUse;
      ~Release() { inUse.store(false, std::memory_order_release); }
    } release{handle->inUse};
    Status status = checkArguments(arguments);
    return status.ok() ? body(handle->session) : status;
  });
}

} // namespace mebp
