// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace mebp::cpu {

// Scratch for one thread within one kernel call. The planner counts it: threads * workspaceBytes.
constexpr size_t workspaceBytes = 512 * 1024;

} // namespace mebp::cpu
