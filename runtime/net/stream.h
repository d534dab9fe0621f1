// SPDX-License-Identifier: Apache-2.0
//
// A mebp_transport as a class: what pipe, shaped and gRPC have in common.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "mebp/transport.h"
#include "runtime/core/status.h"

namespace mebp::net {

using Clock = std::chrono::steady_clock;

// What a stream is made for.
struct StreamLimits {
  size_t frameBytes = 1 << 20; // the largest frame, head and body
  size_t frames = 8;           // which may be under way in a direction before a send waits
  uint32_t silenceMs = 20'000; // so long a send waits for room, and a connection for a sign of life
};

class Stream {
public:
  virtual ~Stream() = default;
  virtual Status open(uint32_t timeoutMs) = 0;
  virtual Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) = 0;
  virtual Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                         uint32_t timeoutMs) = 0;
  virtual void close() = 0;
};

// The stream for callers in C; it has to outlive what they do with it.
mebp_transport transportOf(Stream &stream);

// When a wait of so many milliseconds, from now on, ends; UINT32_MAX: never, but for a year's end.
Clock::time_point deadlineOf(uint32_t timeoutMs);

// Who is at the other end, as messages call it.
enum class Peer { Server, Device };

// The lines that all streams say alike.
Status checkLargest(size_t frameBytes, size_t largest);
Status checkPromised(size_t frameBytes, size_t headBytes, size_t bodyCapacity);
Status isClosed();
Status isSilent(Peer peer, uint32_t timeoutMs);
Status hasNoRoom(Peer peer, uint32_t silenceMs);
Status hasEnded(Peer peer);

} // namespace mebp::net
