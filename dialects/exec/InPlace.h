// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Lifetimes.h"

namespace mebp::exec {

/// Whether a program may leave what flows on where what flowed in was: its one output that is an activation or a
/// cotangent, in the memory of its cotangent or, where it takes none, of its activation. It then computes the same, and
/// a runtime may choose.
bool mayRunInPlace(ProgramOp program, const Lifetimes &lifetimes);

} // namespace mebp::exec
