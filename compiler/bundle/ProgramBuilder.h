// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "format/program.pb.h"

namespace mebp {

/// Serializes a placed program, one for one. `parameterElement` says how a parameter of the block is stored.
void buildProgram(exec::ProgramOp program, llvm::function_ref<format::ElementType(llvm::StringRef)> parameterElement,
                  format::Program &out);

} // namespace mebp
