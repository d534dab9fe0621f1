// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/backends/self_test/call.h"

namespace mebp::self_test {

// Calls of every kernel of format/kernels.h: few, and of the shapes that devices were seen to get wrong.
std::vector<Call> listCalls();

} // namespace mebp::self_test
