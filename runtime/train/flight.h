// SPDX-License-Identifier: Apache-2.0
//
// The micro-batches of a step, here called samples, several at a time. Each lane (lane.h) has a thread, and takes the
// next sample when it is done with its last one.
//
// One thread at a time has the turn, and computes; the others wait for the server, or for the sample before theirs. So
// what lanes share needs no lock of its own, and a kernel has all of the backend's threads. Who asks first gets the
// turn first. What is summed up over samples is summed up in their order, so that the bits are those of one lane.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include <pthread.h>

#include "runtime/core/status.h"

namespace mebp {

class Flight {
public:
  Flight() = default;
  Flight(const Flight &) = delete;
  ~Flight();

  // A thread for each lane but the first, which is the caller's.
  Status create(uint32_t lanes, uint32_t blocks);

  // What a lane does with a sample, while it has the turn.
  using Work = std::function<Status(uint32_t lane, uint32_t sample)>;
  // Gives what the first sample that failed has failed with; what is under way then ends at its next wait.
  Status run(uint32_t samples, const Work &work);

  // The rest is for a lane that has the turn. Outside of run, and with one lane, nothing is waited for.

  // Gives up the turn while `wait` runs, which gives a Status.
  template <typename Wait> Status away(const Wait &wait) {
    if (!isShared)
      return wait();
    Status status = awayFor(wait);
    return status.ok() && isStopped ? stopped() : status;
  }
  // The place of a sample that has something to add, among those that have.
  uint32_t lineUp() { return linedUp++; }
  // Before something of this block's is added, and after it: waits for all places before.
  Status enter(uint32_t block, uint32_t place);
  void leave(uint32_t block);

private:
  struct Thread {
    Flight *flight;
    uint32_t lane;
    pthread_t handle;
  };
  static void *start(void *thread);
  void serve(uint32_t lane);
  void fly(uint32_t lane);
  void takeTurn();
  void giveTurn();
  void stop(uint32_t sample, Status reason);
  static Status stopped() { return failure(MEBP_CANCELLED, "another micro-batch of the step has failed"); }

  template <typename Wait> Status awayFor(const Wait &wait) {
    struct Away {
      explicit Away(Flight &from) : flight(from) { flight.giveTurn(); }
      ~Away() { flight.takeTurn(); }
      Flight &flight;
    } away(*this);
    return wait();
  }

  std::vector<Thread> threads; // stays where it is
  // What those write who have the turn.
  bool isShared = false, isStopped = false;
  uint32_t samples = 0, begun = 0, linedUp = 0;
  uint32_t failedSample = 0;
  Status failed;

  std::mutex mutex; // of what follows
  std::condition_variable changed;
  uint64_t asked = 0, given = 0; // turns
  std::vector<uint32_t> left;    // of each block, the places that have added to it
  bool isOver = false;           // no wait for a place is of use
  const Work *work = nullptr;
  uint64_t runs = 0;
  uint32_t flying = 0, landed = 0; // lanes of this run
  bool isEnding = false;
};

} // namespace mebp
