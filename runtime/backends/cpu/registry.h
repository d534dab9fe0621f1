// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/backends/cpu/kernel/instruction_set.h"
#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu {

// The kernel of that name in a family, or null. Where vectors are of no use, every family has the naive one.
Kernel findKernel(std::string_view name, InstructionSet set);

} // namespace mebp::cpu
