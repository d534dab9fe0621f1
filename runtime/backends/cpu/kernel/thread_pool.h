// SPDX-License-Identifier: Apache-2.0
//
// Threads that run one function together with the thread that calls it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pthread.h>

namespace mebp::cpu {

// Whether the others are of help. If another process has the core of one of them, this one keeps its task for
// milliseconds, where a whole call may take a tenth of one; and while others wait for calls on all cores, the caller's
// may be taken. If calls take longer than the caller would have been busy for all parts of them, it works alone for a
// while, and then asks the others again.
class Helpfulness {
public:
  using Clock = std::chrono::steady_clock;

  bool isAsked(Clock::time_point now) const { return now >= aloneUntil; }
  // A call in which the caller did `part` of the whole from `begin` to `ready`, and then waited.
  void note(Clock::time_point begin, Clock::time_point ready, Clock::time_point end, float part);

private:
  // What the system counts of the calling thread.
  struct Counted {
    std::chrono::microseconds busy{}; // on a core
    long read = 0;                    // pages that it waited for
    static Counted now();
  };

  Clock::time_point aloneUntil{};
  Clock::duration pause = std::chrono::milliseconds(10);
  // Since the last verdict: the calls' time, the caller's part of it, what it would have taken alone, and what was
  // counted of it before.
  bool isJudging = false;
  Clock::duration all{}, own{}, alone{};
  Counted before;
  pthread_t caller{};
};

class ThreadPool {
public:
  using Work = float (*)(void *argument, size_t thread);

  // `threads` with the caller's own, or as many as the system gives.
  explicit ThreadPool(uint32_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ~ThreadPool();

  uint32_t threads() const { return static_cast<uint32_t>(members.size()) + 1; }

  // How large a thread's share should be beside the others': as it was fast in the calls before, for cores may differ.
  int64_t weightOf(size_t thread) const { return weights[thread]; }

  // Calls work(argument, 0) here and, on other threads, work(argument, i) with 0 < i < threads(), `wanted` in all where
  // there are as many. It returns which part of the whole it did, and has to do all there is to do where nobody else
  // comes: a thread that comes when the one here is ready is not waited for and does nothing, and one may come twice.
  // Returns when all that came are ready. Idle threads wait awake for the next call, longer where they are `eager`,
  // before they sleep. While they are of no help, none is called.
  void run(Work work, void *argument, size_t wanted, bool eager);

private:
  struct Member {
    ThreadPool *pool;
    size_t index;
    pthread_t thread;
  };
  static void *start(void *member);
  void serve(size_t index);
  void waitForCall(uint32_t last);
  bool enter();
  void leave();

  void await();
  void learn();

  // What a thread did of the last call that it came to; on a line of its own.
  struct alignas(64) Turn {
    uint32_t call = 0;
    float part = 0;
    std::chrono::duration<float> busy{};
  };
  Turn workAs(size_t index, uint32_t call) const;

  std::vector<Member> members;
  std::vector<Turn> turns;
  std::vector<float> speeds; // the caller's is 1
  std::vector<int64_t> weights;
  Helpfulness others;
  Work work = nullptr;
  void *argument = nullptr;
  std::atomic<bool> isEager{false}, isEnding{false};
  std::atomic<uint32_t> sleeping{0};
  // On lines of their own, since the threads that wait read them all the time.
  alignas(64) std::atomic<uint32_t> calls{0};
  alignas(64) std::atomic<uint32_t> door{0};
};

} // namespace mebp::cpu
