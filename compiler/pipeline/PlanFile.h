// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"
#include "llvm/Support/Error.h"

namespace mebp {

/// Whether the plan may be written to `path`: a new file, an older plan or a stream, and not the model `input`.
/// An empty `path` asks for none, here and below.
llvm::Error checkPlanFile(llvm::StringRef path, llvm::StringRef input);

/// The plan for programs, as `printPlanJson` has it.
llvm::Error writePlanFile(llvm::StringRef path, const format::Bundle &bundle);

} // namespace mebp
