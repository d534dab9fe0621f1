// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "format/program.pb.h"

namespace mebp {

/// Serializes a placed program, one for one.
void buildProgram(exec::ProgramOp program, format::Program &out);

} // namespace mebp
