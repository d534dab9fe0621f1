// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/stream.h"

#include "runtime/core/edge.h"

namespace mebp::net {

static Stream &streamOf(void *user) { return *static_cast<Stream *>(user); }

mebp_transport transportOf(Stream &stream) {
  mebp_transport transport;
  mebp_transport_init(&transport);
  transport.user = &stream;
  transport.open = [](void *user, uint32_t timeoutMs, mebp_error *error) {
    return guarded(error, {}, [&] { return streamOf(user).open(timeoutMs); });
  };
  transport.send = [](void *user, const void *head, size_t headBytes, const void *body, size_t bodyBytes,
                      mebp_error *error) {
    return guarded(error, {}, [&] { return streamOf(user).send(head, headBytes, body, bodyBytes); });
  };
  transport.receive = [](void *user, void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t *bodyBytes,
                         uint32_t timeoutMs, mebp_error *error) {
    return guarded(error, {{"body_bytes", bodyBytes}},
                   [&] { return streamOf(user).receive(head, headBytes, body, bodyCapacity, *bodyBytes, timeoutMs); });
  };
  transport.close = [](void *user) { streamOf(user).close(); };
  return transport;
}

Clock::time_point deadlineOf(uint32_t timeoutMs) {
  return Clock::now() + (timeoutMs == UINT32_MAX ? std::chrono::hours(24 * 365) : std::chrono::milliseconds(timeoutMs));
}

Status checkLargest(size_t frameBytes, size_t largest) {
  if (frameBytes <= largest)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT,
                 "a frame of %zu bytes is to be sent, and this stream was made for %zu; "
                 "make it for the largest frame",
                 frameBytes, largest);
}

Status checkPromised(size_t frameBytes, size_t headBytes, size_t bodyCapacity) {
  if (frameBytes >= headBytes && frameBytes - headBytes <= bodyCapacity)
    return Status();
  return failure(MEBP_CORRUPT,
                 "a frame of %zu bytes arrived, and it was to have %zu to %zu; use the two halves of one "
                 "split and the same release of mebp on both sides",
                 frameBytes, headBytes, headBytes + bodyCapacity);
}

Status isClosed() { return failure(MEBP_DISCONNECTED, "this stream was closed; open it again"); }

static const char *nameOf(Peer peer) { return peer == Peer::Server ? "the server" : "the device"; }

Status isSilent(Peer peer, uint32_t timeoutMs) {
  return failure(MEBP_DISCONNECTED, "%s sent nothing for %u ms; see whether it still runs, or wait longer",
                 nameOf(peer), timeoutMs);
}

Status hasNoRoom(Peer peer, uint32_t silenceMs) {
  return failure(MEBP_DISCONNECTED, "%s took no frame for %u ms; see whether it still runs, or wait longer",
                 nameOf(peer), silenceMs);
}

Status hasEnded(Peer peer) {
  return peer == Peer::Server ? failure(MEBP_DISCONNECTED, "the server ended the stream; open it again")
                              : failure(MEBP_DISCONNECTED, "the device ended the stream, or has gone");
}

} // namespace mebp::net
