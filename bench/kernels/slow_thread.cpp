// SPDX-License-Identifier: Apache-2.0
//
// Makes one thread slow, as a small core is: a timer stops it for a part of every 0.3 ms. bench/slow_core.py
// loads this library into the process whose thread it is. Linux alone.
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace {

constexpr long period = 300'000; // nanoseconds
long stopped = 0;                // of each period

long now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000L + time.tv_nsec;
}

void stop(int) {
  for (const long end = now() + stopped; now() < end;)
    ;
}

} // namespace

// The thread `id` of this process keeps `share` of its time until it is called with 1, by one caller for one thread.
// False where the system refuses.
extern "C" bool slowThread(int id, double share) {
  static timer_t timer;
  static bool isMade = false;
  stopped = static_cast<long>(period * (1 - share));
  if (!isMade) {
    struct sigaction action{};
    action.sa_handler = stop;
    action.sa_flags = SA_RESTART;
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN + 1;
    event._sigev_un._tid = id;
    if (::sigaction(event.sigev_signo, &action, nullptr) != 0 || ::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
      return false;
    isMade = true;
  }
  const long every = share < 1 ? period : 0;
  const itimerspec times{{0, every}, {0, every}};
  return ::timer_settime(timer, 0, &times, nullptr) == 0;
}
