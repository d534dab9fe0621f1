// SPDX-License-Identifier: Apache-2.0
//
// What the C API's opaque bundle and session are.
#pragma once

#include <atomic>
#include <forward_list>
#include <memory>
#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/core/edge.h"
#include "runtime/train/session.h"

struct mebp_bundle {
  mebp::Bundle bundle;
};

struct mebp_session {
  mebp_bundle *bundle = nullptr;
  mebp_session_options options = {}; // as they were given
  std::string spillFolder;           // of them
  std::unique_ptr<bool[]> owned;     // likewise
  std::vector<mebp_range> ownedElements;
  mebp::Lasting lasting;
  std::unique_ptr<mebp::Session> session; // null while it is paused
  std::string pausedIn;                   // the folder that has its state then
  uint32_t generations = 0;               // that borrow from it
  mutable std::atomic<bool> inUse{false};
  std::atomic<uint64_t> steps{0}; // those of the session, for any thread
  // What was given out stays, for whoever reads it beside a thread that loads another state or pauses.
  std::atomic<const char *> kernels{""}, notes{""};
  std::forward_list<std::string> lines;

  void tell(const mebp::Session &of) {
    kernels = of.engine.kernels();
    if (of.engine.notes.empty()) {
      notes = "";
    } else {
      lines.push_front(of.engine.notes);
      notes = lines.front().c_str();
    }
  }
};

namespace mebp {

// Runs `body` while no other thread may use the session of `handle`.
template <typename Handle, typename Body>
mebp_code withHandle(Handle *handle, mebp_error *error, std::initializer_list<Argument> arguments, const Body &body) {
  return guarded(error, {{"session", handle}}, [&] {
    if (handle->inUse.exchange(true, std::memory_order_acquire))
      return failure(MEBP_BUSY, "the session is in use by another thread; call it from one thread at a time");
    struct Release {
      std::atomic<bool> &inUse;
      ~Release() { inUse.store(false, std::memory_order_release); }
    } release{handle->inUse};
    Status status = checkArguments(arguments);
    return status.ok() ? body() : status;
  });
}

// Runs `body` on the session of `handle`, which has to have its memory.
template <typename Handle, typename Body>
mebp_code withSession(Handle *handle, mebp_error *error, std::initializer_list<Argument> arguments, const Body &body) {
  return withHandle(handle, error, arguments, [&] {
    if (!handle->session)
      return failure(MEBP_PAUSED, "the session is paused and has no memory; call mebp_session_resume first");
    return body(*handle->session);
  });
}

} // namespace mebp
