// SPDX-License-Identifier: Apache-2.0
//
// Frames that arrive once and in their order, over a transport that may break in between.
//
// Each side numbers what it sends and keeps the last frames. Where the stream breaks, the device opens a new one, both
// say which frame they received last, and send what the other lacks. A server that has forgotten the session, as one
// that was started again, begins a new one: what the device was at is lost, and begins again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "format/split.h"
#include "mebp/transport.h"
#include "runtime/core/status.h"

namespace mebp {

struct StreamTimes {
  uint32_t answerMs = 60'000; // so long one waits for a frame
  uint32_t retryMs = 60'000;  // so long a device tries to reach the server again, or a server waits for the device
};

class ReliableStream {
public:
  // `memory` has format::bytesOfKeptFrames(largestBody) bytes.
  void create(unsigned char *memory, uint64_t largestBody, StreamTimes times);

  // The device's: greets the server.
  Status open(const mebp_transport &stream, const format::Hello &greeting);
  // The server's: how it answers, its first stream, on the thread that runs the session; and, on another one, the next
  // stream, whose greeting it has received. That call returns when the stream is of no use any more.
  void begin(const format::Hello &answer);
  Status greetFirst(const mebp_transport &stream);
  void handOver(const mebp_transport &stream, const format::Hello &greeting);

  // Where the body of the next frame is to be written; send sends it, with so many bytes.
  unsigned char *body() { return frameOf(sent + 1).body; }
  uint64_t bodyCapacity() const { return largest; }
  Status send(format::FrameHead head, uint64_t bytes);
  // The next frame; its body stays until the next call.
  Status receive(format::FrameHead &head);
  const unsigned char *received() const { return inbox; }

  uint64_t session() const { return hello.session; }
  // The device's: tells the server that it will not come back, and waits for a moment until that one has heard it.
  void bye();
  // Whether the last failure has lost what the server was at.
  bool hasLost() const { return lost; }
  // The device's: the next frame begins another session.
  void abandon();
  // Whether anything was sent, or lost, since a call began.
  void beginCall() { hasSpoken = lost = false; }
  bool hasSpoken = false;
  // The family of kernels that the server runs, as it has said.
  const std::string &peerKernels() const { return peer; }
  // The server's: nothing runs the session any more. What it was sent until then still arrives.
  void end();
  // The server's, on another thread: the session is to end, if its device is gone, which it says; or at once.
  bool giveUp();
  void stop();

  uint64_t payloadBytes[2] = {}; // of messages: sent, received
  uint64_t messages[2] = {};

private:
  struct Frame {
    format::FrameHead *head;
    unsigned char *body;
  };
  Frame frameOf(uint32_t sequence) const;
  Status sendAgain(uint32_t received);
  Status greet();
  // After a failure of the transport: a new stream, where the frames that the peer lacks are sent again.
  Status recover(const Status &reason);
  Status reopen();
  Status waitForStream();
  Status lastWord(const Status &reason);
  static Status of(mebp_code code, const mebp_error &error) { return Status(code, error.message); }

  unsigned char *memory = nullptr, *inbox = nullptr;
  uint64_t largest = 0, stride = 0;
  StreamTimes waits;
  mebp_transport transport = {};
  format::Hello hello; // what we say
  std::string peer;
  bool isDevice = true, isOpen = false, lost = false;
  uint32_t sent = 0, got = 0; // numbers of the last frames

  std::mutex mutex; // of what follows: a stream that was handed over
  std::condition_variable changed;
  bool hasNext = false, isOver = false, isWaiting = false, isGivenUp = false;
  uint64_t offered = 0, taken = 0; // numbers of streams that were handed over: the last one, and the one in use
  mebp_transport next = {};
  uint32_t nextReceived = 0;
};

// Receives a stream's greeting.
Status receiveHello(const mebp_transport &stream, uint32_t timeoutMs, format::Hello &out);
// Answers it; a line refuses.
Status sendWelcome(const mebp_transport &stream, const format::Hello &answer, const std::string &refusal = "");

} // namespace mebp
