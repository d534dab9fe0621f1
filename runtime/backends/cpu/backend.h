// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/exec/backend.h"
#include "runtime/exec/device.h"

namespace mebp {

Device lookAtCpu();

// Its runs allocate nothing and never fail.
std::unique_ptr<Backend> makeCpuBackend(uint32_t threads, bool referenceKernels);

} // namespace mebp
