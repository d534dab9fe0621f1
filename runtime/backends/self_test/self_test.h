// SPDX-License-Identifier: Apache-2.0
//
// Compares each kernel of a device with the CPU's naive ones. GPUs and what drives them have computed wrong in silence:
// zeros for a single row, garbage beyond 32,768 rows. A run that would train on such results must not begin.
#pragma once

#include <functional>
#include <memory>

#include "runtime/backends/self_test/outcome.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"

namespace mebp::self_test {

using Make = std::function<Result<std::unique_ptr<Backend>>(const Routes &routes)>;

// What is wrong by one way and right by another is avoided; what stays wrong is in Outcome::wrong. Fails where no
// backend can be made.
Result<Outcome> testDevice(const Make &make, const Make &makeReference);

} // namespace mebp::self_test
