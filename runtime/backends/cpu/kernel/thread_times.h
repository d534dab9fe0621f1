// SPDX-License-Identifier: Apache-2.0
//
// How long each thread worked on a kernel call, for a profile. Without one no clock is read.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/core/work.h"

namespace mebp::cpu {

class ThreadTimes {
public:
  using Clock = std::chrono::steady_clock;

  explicit ThreadTimes(size_t threads) : cells(threads), shares(threads) {}

  // Around a kernel call. `work` then has what the threads did, until the next call begins.
  void beginCall();
  void endCall(Work &work);

  // Tasks that the threads are given at once, while it lives, by the thread that calls.
  class Round {
  public:
    Round(ThreadTimes *times, int64_t tasks) : times(times) {
      if (times)
        times->beginRound(static_cast<uint64_t>(tasks));
    }
    Round(const Round &) = delete;
    ~Round() {
      if (times)
        times->endRound();
    }

  private:
    ThreadTimes *times;
  };

  // One thread's part of a round, from its first task until it finds no other.
  class Turn {
  public:
    Turn(ThreadTimes *times, size_t thread) : times(times), thread(thread) {
      if (times)
        begin = Clock::now();
    }
    Turn(const Turn &) = delete;
    ~Turn() {
      if (times)
        times->add(thread, tasks, begin, Clock::now());
    }

    uint64_t tasks = 0;

  private:
    ThreadTimes *times;
    size_t thread;
    Clock::time_point begin;
  };

private:
  void beginRound(uint64_t tasks) { fewest = rounds++ ? std::min(fewest, tasks) : tasks; }
  void add(size_t thread, uint64_t tasks, Clock::time_point begin, Clock::time_point end) {
    cells[thread].tasks += tasks;
    cells[thread].busy += end - begin;
    cells[thread].ready = end;
  }
  void endRound() { waited += Clock::now() - cells[0].ready; }

  // On lines of their own: threads write theirs at the same time.
  struct alignas(64) Cell {
    uint64_t tasks = 0;
    Clock::duration busy{};
    Clock::time_point ready;
  };
  std::vector<Cell> cells;
  std::vector<ThreadShare> shares;
  Clock::time_point begun;
  Clock::duration waited{}; // the caller, for the others
  uint64_t rounds = 0, fewest = 0;
};

} // namespace mebp::cpu
