// SPDX-License-Identifier: Apache-2.0
#include "runtime/split/reliable_stream.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace mebp {

using format::FrameHead;
using format::FrameKind;
using format::Hello;
using Clock = std::chrono::steady_clock;

static constexpr uint32_t slots = format::keptFrames - 1; // the last one is for what comes in

void ReliableStream::create(unsigned char *sessionMemory, uint64_t largestBody, StreamTimes times) {
  memory = sessionMemory;
  largest = largestBody;
  stride = format::alignUp(sizeof(FrameHead) + largestBody);
  inbox = memory + slots * stride;
  waits = times;
}

ReliableStream::Frame ReliableStream::frameOf(uint32_t sequence) const {
  unsigned char *frame = memory + sequence % slots * stride;
  return {reinterpret_cast<FrameHead *>(frame), frame + sizeof(FrameHead)};
}

static Status sendFrame(const mebp_transport &stream, const FrameHead &head, const void *body) {
  mebp_error error = {};
  const mebp_code code = stream.send(stream.user, &head, sizeof head, body, head.bytes, &error);
  return code == MEBP_OK ? Status() : Status(code, error.message);
}

static Status receiveFrame(const mebp_transport &stream, FrameHead &head, void *body, uint64_t capacity,
                           uint32_t timeoutMs) {
  mebp_error error = {};
  size_t bytes = 0;
  const mebp_code code =
      stream.receive(stream.user, &head, sizeof head, body, static_cast<size_t>(capacity), &bytes, timeoutMs, &error);
  if (code != MEBP_OK)
    return Status(code, error.message);
  const unsigned own = FrameHead().version;
  if (head.version != own)
    return failure(MEBP_CORRUPT,
                   "the other half speaks version %u of the protocol and this one version %u; use the same release of "
                   "mebp on both sides",
                   static_cast<unsigned>(head.version), own);
  if (head.bytes != bytes)
    return failure(MEBP_CORRUPT, "the other half sent a frame of %zu bytes and says that it has %u", bytes, head.bytes);
  return Status();
}

Status receiveHello(const mebp_transport &stream, uint32_t timeoutMs, Hello &out) {
  FrameHead head;
  if (Status status = receiveFrame(stream, head, &out, sizeof out, timeoutMs); !status.ok())
    return status;
  if (head.kind != static_cast<uint8_t>(FrameKind::Hello) || head.bytes != sizeof out)
    return failure(MEBP_CORRUPT, "the device does not begin with a greeting");
  return Status();
}

Status sendWelcome(const mebp_transport &stream, const Hello &answer, const std::string &refusal) {
  FrameHead head;
  head.kind = static_cast<uint8_t>(FrameKind::Welcome);
  head.sequence = refusal.empty() ? 1 : 0;
  head.bytes = static_cast<uint32_t>(refusal.empty() ? sizeof answer : refusal.size());
  return sendFrame(stream, head, refusal.empty() ? static_cast<const void *>(&answer) : refusal.data());
}

Status ReliableStream::open(const mebp_transport &stream, const Hello &greeting) {
  transport = stream;
  hello = greeting;
  isDevice = true;
  mebp_error error = {};
  const mebp_code code = transport.open(transport.user, waits.answerMs, &error);
  if (code != MEBP_OK)
    return of(code, error); // who cannot be reached at first is hardly where one looks
  Status status = greet();
  if (!status.ok())
    status = recover(status);
  isOpen = status.ok();
  return status;
}

// Ends with the frames sent again that the server lacks.
Status ReliableStream::greet() {
  hello.received = got;
  FrameHead head;
  head.kind = static_cast<uint8_t>(FrameKind::Hello);
  head.bytes = sizeof hello;
  if (Status status = sendFrame(transport, head, &hello); !status.ok())
    return status;
  unsigned char answer[512];
  if (Status status = receiveFrame(transport, head, answer, sizeof answer, waits.answerMs); !status.ok())
    return status;
  if (head.kind != static_cast<uint8_t>(FrameKind::Welcome))
    return failure(MEBP_CORRUPT, "the server does not answer the greeting; connect to mebp serve of the same release");
  if (head.sequence == 0)
    return Status(MEBP_REFUSED, std::string(reinterpret_cast<const char *>(answer), head.bytes));
  Hello welcome;
  if (head.bytes != sizeof welcome)
    return failure(MEBP_CORRUPT,
                   "the server's answer to the greeting has %u bytes and not %zu; use the same release of mebp on both "
                   "sides",
                   head.bytes, sizeof welcome);
  std::memcpy(&welcome, answer, sizeof welcome);
  const uint64_t before = hello.session;
  hello.session = welcome.session;
  peer = welcome.family();
  if (before && before != welcome.session) {
    lost = true;
    sent = got = 0;
    return failure(MEBP_DISCONNECTED, "the server has been started again and knows nothing of the step");
  }
  Status status = sendAgain(welcome.received);
  return status.code() == MEBP_DISCONNECTED ? lastWord(status) : status;
}

void ReliableStream::begin(const Hello &answer) {
  hello = answer;
  isDevice = false;
}

Status ReliableStream::greetFirst(const mebp_transport &stream) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isGivenUp) // before there was a stream to close
      return failure(MEBP_DISCONNECTED, "the server is being stopped");
    transport = stream;
  }
  return sendWelcome(transport, hello);
}

void ReliableStream::handOver(const mebp_transport &stream, const Hello &greeting) {
  std::unique_lock<std::mutex> lock(mutex);
  if (isOver || isGivenUp)
    return;
  if (transport.close)
    transport.close(transport.user); // the thread that waits in it takes the new one
  next = stream;
  nextReceived = greeting.received;
  hasNext = true;
  const uint64_t own = ++offered;
  changed.notify_all();
  changed.wait(lock, [&] { return isOver || (offered != own && taken != own); });
}

void ReliableStream::bye() {
  if (!isDevice || !isOpen)
    return;
  FrameHead head;
  head.kind = static_cast<uint8_t>(FrameKind::Bye);
  head.sequence = ++sent;
  head.received = got;
  constexpr uint32_t momentMs = 1000;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(momentMs);
  Status status = sendFrame(transport, head, nullptr);
  while (status.ok() && Clock::now() < end)
    status = receiveFrame(transport, head, inbox, largest, momentMs);
}

// The next frame finds the stream closed, and opens one for a session that nobody knows yet.
void ReliableStream::abandon() {
  bye(); // or the server would keep the session for its device to come back
  transport.close(transport.user);
  hello.session = 0;
  sent = got = 0;
}

void ReliableStream::end() {
  std::lock_guard<std::mutex> lock(mutex);
  isOver = true;
  transport = {}; // which is its caller's again, who may end it before stop() is called
  changed.notify_all();
}

bool ReliableStream::giveUp() {
  std::lock_guard<std::mutex> lock(mutex);
  isGivenUp |= isWaiting;
  changed.notify_all();
  return isGivenUp;
}

void ReliableStream::stop() {
  std::lock_guard<std::mutex> lock(mutex);
  isGivenUp = true;
  if (transport.close)
    transport.close(transport.user);
  changed.notify_all();
}

Status ReliableStream::sendAgain(uint32_t peerReceived) {
  if (peerReceived > sent || sent - peerReceived > slots)
    return failure(MEBP_CORRUPT, "the other half has received what was never sent, or lacks what is no longer kept");
  for (uint32_t sequence = peerReceived + 1; sequence <= sent; ++sequence) {
    const Frame frame = frameOf(sequence);
    frame.head->received = got;
    if (Status status = sendFrame(transport, *frame.head, frame.body); !status.ok())
      return status;
  }
  return Status();
}

Status ReliableStream::reopen() {
  transport.close(transport.user);
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(waits.retryMs);
  Status status;
  for (uint32_t pause = 20;; pause = std::min<uint32_t>(2 * pause, 2000)) {
    mebp_error error = {};
    const mebp_code code = transport.open(transport.user, waits.answerMs, &error);
    status = code == MEBP_OK ? greet() : of(code, error);
    if (status.ok() || lost || status.code() != MEBP_DISCONNECTED || Clock::now() >= end)
      return status;
    transport.close(transport.user);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}

// A device that has never spoken may not know the session's name. One that was only silent sees that its stream has
// ended, and opens another.
Status ReliableStream::waitForStream() {
  if (transport.close)
    transport.close(transport.user);
  if (got == 0)
    return failure(MEBP_DISCONNECTED, "the device has gone before it began");
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex);
    isWaiting = true;
    const bool isInTime =
        changed.wait_for(lock, std::chrono::milliseconds(waits.retryMs), [&] { return hasNext || isGivenUp; });
    isWaiting = false;
    if (isGivenUp)
      return failure(MEBP_DISCONNECTED, "nobody waits for the device any more");
    if (!isInTime)
      return failure(MEBP_DISCONNECTED, "the device has gone and did not come back");
    transport = next;
    taken = offered;
    hasNext = false;
    const uint32_t received = nextReceived;
    changed.notify_all(); // the stream before is of no use to anybody now
    lock.unlock();
    hello.received = got;
    Status status = sendWelcome(transport, hello);
    if (status.ok())
      status = sendAgain(received);
    if (status.code() != MEBP_DISCONNECTED)
      return status;
  }
}

Status ReliableStream::recover(const Status &reason) {
  if (reason.code() != MEBP_DISCONNECTED)
    return reason;
  return isDevice ? reopen() : waitForStream();
}

Status ReliableStream::send(FrameHead head, uint64_t bytes) {
  lost = false;
  hasSpoken = true;
  head.sequence = ++sent;
  head.received = got;
  head.bytes = static_cast<uint32_t>(bytes);
  const Frame frame = frameOf(sent);
  *frame.head = head;
  if (head.kind == static_cast<uint8_t>(FrameKind::Message)) {
    payloadBytes[0] += bytes;
    ++messages[0];
  }
  Status status = sendFrame(transport, head, frame.body);
  if (status.code() == MEBP_DISCONNECTED && isDevice)
    status = lastWord(status);
  return status.ok() ? status : recover(status); // which has sent it
}

static Status wordOf(const FrameHead &head, const unsigned char *body) {
  return Status(MEBP_REFUSED, std::string(reinterpret_cast<const char *>(body), head.bytes));
}

// Why the server ended the stream, where it has said so; else the reason that is given.
Status ReliableStream::lastWord(const Status &reason) {
  FrameHead head;
  constexpr int underWay = 16; // more than any stream holds
  for (int i = 0; i < underWay && receiveFrame(transport, head, inbox, largest, 0).ok(); ++i)
    if (head.kind == static_cast<uint8_t>(FrameKind::Error))
      return wordOf(head, inbox);
  return reason;
}

// A peer that greets again and again, or sends again what is here, makes nobody wait for ever.
Status ReliableStream::receive(FrameHead &head) {
  lost = false;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(uint64_t{waits.answerMs} + waits.retryMs);
  for (;;) {
    Status status = receiveFrame(transport, head, inbox, largest, waits.answerMs);
    const bool isNew = status.ok() && head.sequence > got;
    if (!isNew && Clock::now() >= end)
      return status.ok() ? failure(MEBP_DISCONNECTED, "the other half sends nothing but what it has sent before")
                         : status;
    if (!status.ok()) {
      if (status = recover(status); !status.ok())
        return status;
      continue;
    }
    if (!isNew)
      continue; // sent again, and here already
    if (head.sequence != got + 1)
      return failure(MEBP_CORRUPT, "the other half's frames come out of order");
    ++got;
    if (head.kind == static_cast<uint8_t>(FrameKind::Error))
      return wordOf(head, inbox);
    if (head.kind == static_cast<uint8_t>(FrameKind::Message)) {
      payloadBytes[1] += head.bytes;
      ++messages[1];
    }
    return Status();
  }
}

} // namespace mebp
