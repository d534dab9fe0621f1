// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calls.h"
#include "module.h"

namespace mebp::python {

// Runs a long call without Python's lock, so that other threads (a progress bar, a data loader) go on.
template <typename Call> void unlocked(Call call) {
  mebp_error error;
  mebp_code code;
  RunningCall running;
  {
    nb::gil_scoped_release release;
    code = call(&error);
  }
  check(code, error);
}

} // namespace mebp::python
