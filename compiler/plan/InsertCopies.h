// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"

namespace mebp {

/// Copies what has to be in two places, so that every op that takes memory over may. Returns how many copies it made.
mlir::FailureOr<unsigned> insertCopies(exec::ProgramOp program);

} // namespace mebp
