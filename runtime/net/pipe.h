// SPDX-License-Identifier: Apache-2.0
//
// A stream within this process: what one end sends the other receives. All its memory is there from the beginning.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/stream.h"

namespace mebp::net {

// The frames under way in one direction.
class FrameQueue {
public:
  FrameQueue(const StreamLimits &limits, Peer sender, Peer receiver);

  Status push(const void *head, size_t headBytes, const void *body, size_t bodyBytes);
  Status pop(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes, uint32_t timeoutMs);
  void end();   // by the sender: what is under way still arrives
  void abort(); // by the receiver

private:
  std::byte *slot(size_t number) { return memory.get() + number % limits.frames * limits.frameBytes; }

  const StreamLimits limits;
  const Peer sender, receiver;
  const std::unique_ptr<std::byte[]> memory;
  const std::unique_ptr<size_t[]> sizes;
  size_t pushed = 0, popped = 0;
  bool ended = false, aborted = false;
  std::mutex mutex;
  std::condition_variable changed;
};

// Both ends, which come opened, and once closed stay so.
class Pipe {
public:
  explicit Pipe(const StreamLimits &limits);
  Stream &device() { return deviceEnd; }
  Stream &server() { return serverEnd; }

private:
  class End final : public Stream {
  public:
    End(FrameQueue &out, FrameQueue &in) : out(out), in(in) {}
    Status open(uint32_t timeoutMs) override;
    Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) override;
    Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                   uint32_t timeoutMs) override;
    void close() override;

  private:
    FrameQueue &out, &in;
  };

  FrameQueue up, down;
  End deviceEnd, serverEnd;
};

// A device's end whose `open` makes a pipe each time, and lets `serve` have its other end, as a server over gRPC does.
class ServedPipe final : public Stream {
public:
  ServedPipe(const StreamLimits &limits, mebp_serve_stream serve, void *user, std::string identity);
  ~ServedPipe() override; // waits for each `serve` to return

  Status open(uint32_t timeoutMs) override;
  Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) override;
  Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                 uint32_t timeoutMs) override;
  void close() override;

private:
  std::shared_ptr<Pipe> current();

  const StreamLimits limits;
  const mebp_serve_stream serve;
  void *const user;
  const std::string identity;
  std::mutex mutex; // of the next one alone, which close reads on any thread
  std::shared_ptr<Pipe> pipe;
  std::vector<std::thread> servers;
};

} // namespace mebp::net
