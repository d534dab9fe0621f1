// SPDX-License-Identifier: Apache-2.0
//
// A device's stream over a network as slow, far and unsteady as asked, around any transport: tests need no other
// machine and no right to change this one's network.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/net/link.h"

namespace mebp::net {

// A frame costs the bandwidth first, and then only time: any number of them is under way at once. What lies between is
// two queues with a thread each: one puts into `inner` what has crossed upwards, one takes out of it what then has to
// cross downwards.
class Shaped final : public Stream {
public:
  // `inner` is not opened yet, or comes opened if it has no `open`; it has to outlive this.
  Shaped(const mebp_transport &inner, const Shape &shape, const StreamLimits &limits);
  ~Shaped() override;

  Status open(uint32_t timeoutMs) override;
  Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) override;
  Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                 uint32_t timeoutMs) override;
  void close() override;

  uint64_t openings() const { return opened; }
  uint64_t cuts() const { return cut; }

private:
  struct Frame {
    std::vector<std::byte> bytes;
    Clock::time_point arrives;
  };
  // A direction; all of it is behind `mutex`.
  struct Lane {
    Lane(Shape::Direction direction, double mbit, double delayMs) : direction(direction), link(mbit, delayMs) {}
    const Shape::Direction direction;
    Link link;
    uint64_t frames = 0; // that were put down since the stream was opened
    size_t bytes = 0;    // under way
    std::deque<Frame> underWay;
    std::vector<std::vector<std::byte>> spare;
    Status ended; // why nothing comes after what is under way
  };

  void start();
  void stop();
  void carryUp();
  void carryDown();
  // The wait's end, with the reason if the stream is over.
  Status waitForRoom(std::unique_lock<std::mutex> &lock, Lane &lane);
  bool waitForArrival(std::unique_lock<std::mutex> &lock, Lane &lane, Clock::time_point deadline);
  std::vector<std::byte> takeSpare(Lane &lane);
  Status put(Lane &lane, std::vector<std::byte> bytes);
  std::vector<std::byte> take(Lane &lane);
  // Ends the stream for this reason, unless it has ended, and gives the reason back.
  Status end(Status reason);

  const mebp_transport inner;
  const Shape shape;
  const StreamLimits limits;

  std::mutex mutex;
  std::condition_variable changed;
  Status ended = isClosed(); // why nothing goes on; ok while it does
  Lane up, down;
  std::thread upwards, downwards;
  std::atomic<uint64_t> opened = 0, cut = 0;
};

} // namespace mebp::net
