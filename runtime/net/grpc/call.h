// SPDX-License-Identifier: Apache-2.0
//
// One call of gRPC, on either side, as a stream: frames between gRPC's threads and the one that uses the stream.
//
// gRPC has at most one read and one write of a call going on. As soon as one is over the next is started, on whichever
// thread: so frames arrive and leave while the stream's own thread computes, and two sides that both send do not wait
// for each other. gRPC's own functions are never called with the mutex held, since they may call back.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include <grpcpp/support/byte_buffer.h>

#include "runtime/net/stream.h"

namespace mebp::net {

class Call : public Stream {
public:
  Call(const StreamLimits &limits, Peer peer) : limits(limits), peer(peer) {}

  Status open(uint32_t timeoutMs) override;
  Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) final;
  Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                 uint32_t timeoutMs) final;
  void close() final;

protected:
  // What reactors of gRPC do.
  virtual void startRead(grpc::ByteBuffer *frame) = 0;
  virtual void startWrite(const grpc::ByteBuffer *frame) = 0;
  virtual void cancel() = 0;
  virtual void release() = 0; // nothing will be started any more but by gRPC's own calls; called once

  // What reactors of gRPC say.
  void begin(); // the first read
  void onRead(bool ok);
  void onWrite(bool ok);
  void onEnd(Status reason); // no frame comes or goes any more

  // Waits until all that was sent has left, and takes nothing to send from then on.
  void flush();

  const StreamLimits limits;
  const Peer peer;
  std::mutex mutex;
  std::condition_variable changed;
  Status ended;        // by the peer, or by what lies between, and why
  bool closed = false; // by this side

private:
  bool isOver() const { return closed || !ended.ok(); }
  void started(std::unique_lock<std::mutex> &lock);
  void releaseOnce(std::unique_lock<std::mutex> &lock);

  std::deque<grpc::ByteBuffer> arrived, leaving; // the first that leaves is with gRPC
  grpc::ByteBuffer incoming;
  bool reading = false, writing = false;
  bool readOver = false;
  int starting = 0; // threads that are about to start a read or a write
  bool released = false;
};

} // namespace mebp::net
