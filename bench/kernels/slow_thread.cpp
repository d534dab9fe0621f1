// SPDX-License-Identifier: Apache-2.0
//
// Makes one thread slow, as a small core is: a timer stops it for a part of every 0.3 ms. bench/slow_core.py
// loads this library into the process whose thread it is. Linux alone.
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace {

constexpr long period = 300'000; // nanoseconds
long stopped = 0;               // of each period

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

// The thread `id` of this process keeps `share` of its time. False where the system refuses.
extern "C" bool slowThread(int id, double share) {
  stopped = static_cast<long>(period * (1 - share));
  struct sigaction action {};
  action.sa_handler = stop;
  action.sa_flags = SA_RESTART;
  const int number = SIGRTMIN + 1;
  if (::sigaction(number, &action, nullptr) != 0)
    return false;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = number;
  event._sigev_un._tid = id;
  timer_t timer{};
  const itimerspec every{{0, period}, {0, period}};
  return ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && ::timer_settime(timer, 0, &every, nullptr) == 0;
}
