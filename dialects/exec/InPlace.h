// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Lifetimes.h"

namespace mebp::exec {

/// Whether `output` may be bound to the memory of `input`: whatever of it is written has been read for the last time.
/// The program then computes the same in its input's memory as beside it, and a runtime may choose.
bool mayLieInInput(const Lifetimes &lifetimes, mlir::BlockArgument input, mlir::Value output);

/// The same of what flows from block to block: a program's one output that is an activation or a cotangent, and its
/// cotangent or, where it takes none, its activation.
bool mayRunInPlace(ProgramOp program, const Lifetimes &lifetimes);

} // namespace mebp::exec
