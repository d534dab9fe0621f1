// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mebp {

/// Whether the plan may be written to `path`: a new file, an older plan or a stream, and not the model `input`.
/// An empty `path` asks for none, here and below.
llvm::Error checkPlanFile(llvm::StringRef path, llvm::StringRef input);

/// The plan for programs, as `print` has it.
llvm::Error writePlanFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace mebp
