// SPDX-License-Identifier: Apache-2.0
//
// A call opens a door, through which each thread that is awake goes in, and closes it when the caller's own part is
// done. The door counts those inside. So a call is over when the last one inside has left, and a thread that the system
// has not woken yet keeps nobody waiting, as it does where every thread has to answer.
#include "runtime/backends/cpu/kernel/thread_pool.h"

#include "platform/platform.h"
#include "runtime/backends/cpu/kernel/flush_denormals.h"

#include <algorithm>
#include <cmath>

#include <sys/resource.h>

namespace mebp::cpu {

// Of the door; the rest counts.
static constexpr uint32_t isOpen = 1u << 31, isWatched = 1u << 30, count = isWatched - 1;

// Turns of waiting awake. The first is some hundred microseconds, for calls that follow each other at once, as in
// decoding; the second some ten, in which most calls of a training step come, and which are not worth a time slice to
// anybody else.
static constexpr int spins = 20000, briefSpins = 1000;

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Kernels keep what is large in their workspace. The least that systems give is musl's 128 KiB.
static constexpr size_t stackBytes = 1 << 20;

// What is long enough to judge by. How long the caller then works alone doubles with each verdict that others are no
// help, up to where what is lost by asking again is a fiftieth, and halves with each that they are; so a few calls that
// others delayed cost as little as they took.
static constexpr auto judged = std::chrono::milliseconds(10), longestPause = std::chrono::milliseconds(500);

// In so much time a speed that has changed is learned; beyond these bounds it is none of a core.
static constexpr std::chrono::duration<float> learned{0.1f};
static constexpr float slowest = 1.0f / 8, fastest = 8;

// Of a weight: in eighths, so that shares stay the same while speeds hardly change.
static constexpr int64_t whole = 8;

// Systems that do not count for a thread have zeros.
Helpfulness::Counted Helpfulness::Counted::now() {
  Counted found;
#if defined(RUSAGE_THREAD)
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  for (const timeval &part : {used.ru_utime, used.ru_stime})
    found.busy += std::chrono::seconds(part.tv_sec) + std::chrono::microseconds(part.tv_usec);
  found.read = used.ru_majflt;
#endif
  return found;
}

void Helpfulness::note(Clock::time_point begin, Clock::time_point ready, Clock::time_point end, float part) {
  const bool begins = !isJudging || !::pthread_equal(caller, ::pthread_self());
  if (!begins) {
    all += end - begin;
    own += ready - begin;
    // Where others did everything before it began, they were of help.
    alone += part > 0 ? std::chrono::duration_cast<Clock::duration>((ready - begin) / part) : end - begin;
    if (all < judged)
      return;
  }
  const Counted now = Counted::now();
  // Its time on a core has that of waiting awake in it, and its part that without a core; where it waited for a disk,
  // it would have done so alone, too.
  const bool isCounted = now.busy > before.busy && now.read == before.read && now.busy - before.busy < own;
  const double onCore = isCounted ? std::chrono::duration<double>(now.busy - before.busy) / own : 1;
  isJudging = begins || all <= alone * onCore;
  if (!begins)
    pause = std::clamp<Clock::duration>(isJudging ? pause / 2 : 2 * pause, judged, longestPause);
  if (!isJudging)
    aloneUntil = end + pause;
  all = own = alone = {};
  before = now;
  caller = ::pthread_self();
}

ThreadPool::ThreadPool(uint32_t threads) {
  members.resize(threads > 1 ? threads - 1 : 0); // stays where it is from here on
  turns.resize(members.size() + 1);
  speeds.assign(members.size() + 1, 1);
  weights.assign(members.size() + 1, whole);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stackBytes);
  size_t started = 0;
  for (; started < members.size(); ++started) {
    Member &member = members[started];
    member.pool = this;
    member.index = started + 1;
    if (::pthread_create(&member.thread, &attributes, start, &member) != 0)
      break;
  }
  ::pthread_attr_destroy(&attributes);
  members.resize(started);
}

ThreadPool::~ThreadPool() {
  isEnding.store(true);
  calls.fetch_add(1);
  platform::wake(calls, threads());
  for (Member &member : members)
    ::pthread_join(member.thread, nullptr);
}

void *ThreadPool::start(void *member) {
  platform::beginWorkerThread();
  const FlushDenormals whileItLives;
  const Member &self = *static_cast<Member *>(member);
  self.pool->serve(self.index);
  return nullptr;
}

void ThreadPool::serve(size_t index) {
  for (uint32_t last = 0;;) {
    waitForCall(last);
    last = calls.load();
    if (isEnding.load())
      return;
    if (enter()) {
      turns[index] = workAs(index, last);
      leave();
    }
  }
}

void ThreadPool::waitForCall(uint32_t last) {
  for (int turn = 0, most = isEager.load(std::memory_order_relaxed) ? spins : briefSpins; turn < most; ++turn) {
    if (calls.load(std::memory_order_relaxed) != last)
      return;
    pause();
  }
  // Either the caller sees that this one sleeps, or this one sees the call.
  sleeping.fetch_add(1);
  while (calls.load() == last)
    platform::sleepWhile(calls, last);
  sleeping.fetch_sub(1);
}

bool ThreadPool::enter() {
  uint32_t state = door.load(std::memory_order_relaxed);
  while (state & isOpen)
    if (door.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

void ThreadPool::leave() {
  if (door.fetch_sub(1, std::memory_order_release) == (isWatched | 1))
    platform::wake(door, 1);
}

void ThreadPool::run(Work given, void *with, size_t wanted, bool eager) {
  const auto begin = Helpfulness::Clock::now();
  if (!others.isAsked(begin)) {
    given(with, 0);
    return;
  }
  work = given;
  argument = with;
  isEager.store(eager, std::memory_order_relaxed);
  door.store(isOpen, std::memory_order_release);
  const uint32_t call = calls.fetch_add(1) + 1;
  if (sleeping.load() > 0)
    platform::wake(calls, static_cast<uint32_t>(wanted - 1));
  turns[0] = workAs(0, call);
  const auto ready = Helpfulness::Clock::now();
  await();
  others.note(begin, ready, Helpfulness::Clock::now(), turns[0].part);
  learn();
}

ThreadPool::Turn ThreadPool::workAs(size_t index, uint32_t call) const {
  const auto begin = Helpfulness::Clock::now();
  const float part = work(argument, index);
  return {call, part, Helpfulness::Clock::now() - begin};
}

// From those that came to the last call. What a call says counts as much as it is long: kernels' parts are not quite
// equal, and shares that change send a thread to what another one's cache holds.
void ThreadPool::learn() {
  const Turn &own = turns[0];
  if (own.part <= 0 || own.busy.count() <= 0)
    return;
  for (size_t thread = 1; thread < turns.size(); ++thread) {
    const Turn &turn = turns[thread];
    if (turn.call != own.call || turn.part <= 0 || turn.busy.count() <= 0)
      continue;
    const float found = std::clamp(turn.part / turn.busy.count() * own.busy.count() / own.part, slowest, fastest);
    const float weight = std::min(own.busy.count() / learned.count(), 1.0f);
    speeds[thread] += weight * (found - speeds[thread]);
    weights[thread] = std::lround(speeds[thread] * whole);
  }
}

// For all that are inside.
void ThreadPool::await() {
  uint32_t state = door.fetch_and(count, std::memory_order_acquire) & count;
  for (int turn = 0; state && turn < spins; ++turn) {
    pause();
    state = door.load(std::memory_order_acquire);
  }
  while (state & count) {
    if (!(state & isWatched))
      state = door.fetch_or(isWatched, std::memory_order_acquire) | isWatched;
    if (state & count) {
      platform::sleepWhile(door, state);
      state = door.load(std::memory_order_acquire);
    }
  }
}

} // namespace mebp::cpu
