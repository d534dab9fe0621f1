// SPDX-License-Identifier: Apache-2.0
//
// Threads that run one function together with the thread that calls it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pthread.h>

namespace mebp::cpu {

class ThreadPool {
public:
  using Work = void (*)(void *argument, size_t thread);

  // `threads` with the caller's own, or as many as the system gives.
  explicit ThreadPool(uint32_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ~ThreadPool();

  uint32_t threads() const { return static_cast<uint32_t>(members.size()) + 1; }

  // Calls work(argument, 0) here and, on other threads, work(argument, i) with 0 < i < threads(), `wanted` in all where
  // there are as many. It has to do all there is to do where nobody else comes: a thread that comes when the one here
  // is ready is not waited for and does nothing, and one may come twice. Returns when all that came are ready. Idle
  // threads wait awake for the next call, longer where they are `eager`, before they sleep.
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

  std::vector<Member> members;
  Work work = nullptr;
  void *argument = nullptr;
  std::atomic<bool> isEager{false}, isEnding{false};
  std::atomic<uint32_t> sleeping{0};
  // On lines of their own, since the threads that wait read them all the time.
  alignas(64) std::atomic<uint32_t> calls{0};
  alignas(64) std::atomic<uint32_t> door{0};
};

} // namespace mebp::cpu
