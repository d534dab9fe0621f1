// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/call.h"

#include <cstring>
#include <utility>
#include <vector>

namespace mebp::net {

// gRPC may hold a frame's bytes after a call was cancelled, so it gets its own.
static grpc::ByteBuffer frameOf(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  grpc::Slice slice(headBytes + bodyBytes);
  auto *bytes = const_cast<uint8_t *>(slice.begin());
  if (headBytes)
    std::memcpy(bytes, head, headBytes);
  if (bodyBytes)
    std::memcpy(bytes + headBytes, body, bodyBytes);
  return grpc::ByteBuffer(&slice, 1);
}

// Head and body out of what arrived, in pieces of whatever length.
static void scatter(const grpc::ByteBuffer &frame, void *head, size_t headBytes, void *body) {
  std::vector<grpc::Slice> slices;
  (void)frame.Dump(&slices);
  auto *toHead = static_cast<unsigned char *>(head), *toBody = static_cast<unsigned char *>(body);
  for (const grpc::Slice &slice : slices) {
    const size_t ofHead = std::min(headBytes, slice.size());
    if (ofHead)
      std::memcpy(toHead, slice.begin(), ofHead);
    if (slice.size() > ofHead)
      std::memcpy(toBody, slice.begin() + ofHead, slice.size() - ofHead);
    toHead += ofHead;
    headBytes -= ofHead;
    toBody += slice.size() - ofHead;
  }
}

Status Call::open(uint32_t) {
  return failure(MEBP_UNSUPPORTED, "a server's stream comes opened; devices open streams");
}

Status Call::send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  if (Status status = checkLargest(headBytes + bodyBytes, limits.frameBytes); !status.ok())
    return status;
  grpc::ByteBuffer frame = frameOf(head, headBytes, body, bodyBytes);
  std::unique_lock lock(mutex);
  // Nothing more to read: gRPC may let go of the call at any moment, and says in the next why.
  const bool hasRoom = changed.wait_until(lock, deadlineOf(limits.silenceMs),
                                          [&] { return isOver() || (!readOver && leaving.size() < limits.frames); });
  if (isOver())
    return closed ? isClosed() : ended;
  if (!hasRoom) {
    lock.unlock();
    close();
    return hasNoRoom(peer, limits.silenceMs);
  }
  leaving.push_back(std::move(frame));
  if (writing)
    return Status();
  writing = true;
  ++starting;
  grpc::ByteBuffer *first = &leaving.front();
  lock.unlock();
  startWrite(first);
  lock.lock();
  started(lock);
  return Status();
}

Status Call::receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                     uint32_t timeoutMs) {
  std::unique_lock lock(mutex);
  changed.wait_until(lock, deadlineOf(timeoutMs), [&] { return isOver() || !arrived.empty(); });
  if (closed)
    return isClosed();
  if (arrived.empty()) {
    if (!ended.ok())
      return ended;
    lock.unlock();
    close();
    return isSilent(peer, timeoutMs);
  }
  const grpc::ByteBuffer frame = std::move(arrived.front());
  arrived.pop_front();
  if (!reading && !readOver) {
    reading = true;
    ++starting;
    lock.unlock();
    startRead(&incoming);
    lock.lock();
    started(lock);
  } else {
    lock.unlock();
  }
  const size_t size = frame.Length();
  if (Status status = checkPromised(size, headBytes, bodyCapacity); !status.ok())
    return status;
  bodyBytes = size - headBytes;
  scatter(frame, head, headBytes, body);
  return Status();
}

void Call::close() {
  std::unique_lock lock(mutex);
  if (closed)
    return;
  closed = true;
  if (!reading)
    readOver = true;
  changed.notify_all();
  lock.unlock();
  cancel();
  lock.lock();
  releaseOnce(lock);
}

void Call::flush() {
  std::unique_lock lock(mutex);
  changed.wait_until(lock, deadlineOf(limits.silenceMs), [&] { return isOver() || leaving.empty(); });
  closed = true;
  if (!leaving.empty()) { // nobody takes it
    lock.unlock();
    cancel();
    lock.lock();
  }
  changed.wait(lock, [&] { return !writing; });
}

void Call::begin() {
  reading = true; // nobody else knows of the call yet
  startRead(&incoming);
}

void Call::onRead(bool ok) {
  std::unique_lock lock(mutex);
  reading = false;
  if (!ok) {
    readOver = true;
    releaseOnce(lock);
    return;
  }
  arrived.push_back(std::move(incoming));
  incoming = grpc::ByteBuffer();
  changed.notify_all();
  reading = !readOver && arrived.size() < limits.frames;
  const bool starts = reading;
  lock.unlock();
  if (starts)
    startRead(&incoming);
}

void Call::onWrite(bool ok) {
  std::unique_lock lock(mutex);
  writing = false;
  if (!leaving.empty())
    leaving.pop_front();
  changed.notify_all();
  if (!ok || closed || leaving.empty())
    return;
  writing = true;
  grpc::ByteBuffer *first = &leaving.front();
  lock.unlock();
  startWrite(first);
}

void Call::onEnd(Status reason) {
  std::lock_guard lock(mutex);
  if (ended.ok())
    ended = std::move(reason);
  changed.notify_all();
}

void Call::started(std::unique_lock<std::mutex> &lock) {
  --starting;
  releaseOnce(lock);
}

// Unlocks.
void Call::releaseOnce(std::unique_lock<std::mutex> &lock) {
  const bool releases = readOver && starting == 0 && !released;
  released = released || releases;
  lock.unlock();
  if (releases)
    release();
}

} // namespace mebp::net
