// SPDX-License-Identifier: Apache-2.0
//
// Devices of libraries that are opened when they are asked for. A runtime that is built for the CPU alone
// (MEBP_CPU_ALONE) has cpu_alone.cpp instead of this and of what tests them.
#pragma once

#include <memory>

#include "runtime/exec/backend_library.h"
#include "runtime/exec/routes.h"

namespace mebp {

Device lookAtMlx(Processor processor);
// Of one that is there.
Result<std::unique_ptr<Backend>> makeMlx(Processor processor, const Routes &routes);

} // namespace mebp
