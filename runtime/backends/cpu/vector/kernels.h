// SPDX-License-Identifier: Apache-2.0
//
// The kernels that are worth vectors and threads. Work is split by shapes alone, never by the number of threads, so
// results are bitwise the same on any number of them.
#pragma once

#include "runtime/backends/cpu/kernel.h"

namespace mebp::cpu::vector {

void linear(const Call &call, const Context &context);
void linearInputGradient(const Call &call, const Context &context);
void linearWeightGradient(const Call &call, const Context &context);

} // namespace mebp::cpu::vector
