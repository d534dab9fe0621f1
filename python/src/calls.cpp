// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <condition_variable>
#include <mutex>

#include <unistd.h>

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace mebp::python {

static const pid_t owner = ::getpid();
static std::mutex mutex;
static std::condition_variable changed;
static int running = 0;
static bool ending = false;

RunningCall::RunningCall() {
  std::lock_guard<std::mutex> guard(mutex);
  if (ending) {
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
  ++running;
}

RunningCall::~RunningCall() {
  std::lock_guard<std::mutex> guard(mutex);
  --running;
  changed.notify_all();
}

void waitForCalls() {
  if (owner != ::getpid())
    return; // forked: the threads that were in a call are not here
  nb::gil_scoped_release release;
  std::unique_lock<std::mutex> lock(mutex);
  ending = true;
  changed.wait(lock, [] { return running == 0; });
}

} // namespace mebp::python
