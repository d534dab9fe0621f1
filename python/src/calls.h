// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mebp::python {

// A call that runs without Python's lock, from before it gives the lock up until it has it again. Python ends a thread
// that comes back for the lock too late, in the midst of our frames, which aborts the process: so Python's own end
// waits for all calls, and a thread that would begin one then ends quietly instead (SystemExit).
class RunningCall {
public:
  RunningCall();
  ~RunningCall();
  RunningCall(const RunningCall &) = delete;
  RunningCall &operator=(const RunningCall &) = delete;
};

// For atexit.
void waitForCalls();

} // namespace mebp::python
