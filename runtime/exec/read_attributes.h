// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"
#include "runtime/core/status.h"
#include "runtime/exec/attributes.h"

namespace mebp {

// The kernel's attributes, or what is wrong with them. `frequencies` and `slopes` point into `kernel`.
Status readAttributes(const format::Kernel &kernel, Attributes &out);

} // namespace mebp
