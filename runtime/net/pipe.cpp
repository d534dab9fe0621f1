// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/pipe.h"

#include <cstring>
#include <utility>

namespace mebp::net {

FrameQueue::FrameQueue(const StreamLimits &limits, Peer sender, Peer receiver)
    : limits(limits), sender(sender), receiver(receiver), memory(new std::byte[limits.frames * limits.frameBytes]),
      sizes(new size_t[limits.frames]) {}

Status FrameQueue::push(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  if (Status status = checkLargest(headBytes + bodyBytes, limits.frameBytes); !status.ok())
    return status;
  std::unique_lock lock(mutex);
  const bool hasRoom = changed.wait_until(lock, deadlineOf(limits.silenceMs),
                                          [&] { return ended || aborted || pushed - popped < limits.frames; });
  if (ended || aborted)
    return ended ? isClosed() : hasEnded(receiver);
  if (!hasRoom)
    return hasNoRoom(receiver, limits.silenceMs);
  std::byte *frame = slot(pushed);
  if (headBytes)
    std::memcpy(frame, head, headBytes);
  if (bodyBytes)
    std::memcpy(frame + headBytes, body, bodyBytes);
  sizes[pushed++ % limits.frames] = headBytes + bodyBytes;
  changed.notify_all();
  return Status();
}

Status FrameQueue::pop(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                       uint32_t timeoutMs) {
  std::unique_lock lock(mutex);
  changed.wait_until(lock, deadlineOf(timeoutMs), [&] { return aborted || ended || pushed != popped; });
  if (aborted)
    return isClosed();
  if (pushed == popped)
    return ended ? hasEnded(sender) : isSilent(sender, timeoutMs);
  const std::byte *frame = slot(popped);
  const size_t size = sizes[popped++ % limits.frames];
  changed.notify_all();
  if (Status status = checkPromised(size, headBytes, bodyCapacity); !status.ok())
    return status;
  bodyBytes = size - headBytes;
  if (headBytes)
    std::memcpy(head, frame, headBytes);
  if (bodyBytes)
    std::memcpy(body, frame + headBytes, bodyBytes);
  return Status();
}

void FrameQueue::end() {
  std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

void FrameQueue::abort() {
  std::lock_guard lock(mutex);
  aborted = true;
  changed.notify_all();
}

Pipe::Pipe(const StreamLimits &limits)
    : up(limits, Peer::Device, Peer::Server), down(limits, Peer::Server, Peer::Device), deviceEnd(up, down),
      serverEnd(down, up) {}

Status Pipe::End::open(uint32_t) {
  return failure(MEBP_UNSUPPORTED, "this end of a pipe is opened once; make another pipe");
}

Status Pipe::End::send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  Status status = out.push(head, headBytes, body, bodyBytes);
  if (status.code() == MEBP_DISCONNECTED)
    out.end(); // and why the other end has gone may still be read
  return status;
}

Status Pipe::End::receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                          uint32_t timeoutMs) {
  Status status = in.pop(head, headBytes, body, bodyCapacity, bodyBytes, timeoutMs);
  if (status.code() == MEBP_DISCONNECTED)
    close();
  return status;
}

void Pipe::End::close() {
  out.end();
  in.abort();
}

ServedPipe::ServedPipe(const StreamLimits &limits, mebp_serve_stream serve, void *user, std::string identity)
    : limits(limits), serve(serve), user(user), identity(std::move(identity)) {}

ServedPipe::~ServedPipe() {
  close();
  for (std::thread &server : servers)
    server.join();
}

Status ServedPipe::open(uint32_t) {
  close();
  auto opened = std::make_shared<Pipe>(limits);
  servers.emplace_back([this, opened] {
    const mebp_transport stream = transportOf(opened->server());
    serve(user, &stream, identity.c_str());
    opened->server().close();
  });
  std::lock_guard lock(mutex);
  pipe = std::move(opened);
  return Status();
}

Status ServedPipe::send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  std::shared_ptr<Pipe> opened = current();
  return opened ? opened->device().send(head, headBytes, body, bodyBytes) : isClosed();
}

Status ServedPipe::receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                           uint32_t timeoutMs) {
  std::shared_ptr<Pipe> opened = current();
  return opened ? opened->device().receive(head, headBytes, body, bodyCapacity, bodyBytes, timeoutMs) : isClosed();
}

void ServedPipe::close() {
  if (std::shared_ptr<Pipe> opened = current())
    opened->device().close();
}

std::shared_ptr<Pipe> ServedPipe::current() {
  std::lock_guard lock(mutex);
  return pipe;
}

} // namespace mebp::net
