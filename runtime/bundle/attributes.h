// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"
#include "runtime/backends/cpu/kernel.h"
#include "runtime/core/status.h"

namespace mebp {

// The kernel's attributes, or what is wrong with them. `frequencies` points into `kernel`.
Status readAttributes(const format::Kernel &kernel, cpu::Attributes &out);

} // namespace mebp
