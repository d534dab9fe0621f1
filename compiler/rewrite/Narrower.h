// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"

namespace mebp {

/// Stores in bf16 what a function computes of tokens; or that alone which comes in (true) or goes out by chosen ports,
/// and what shares memory with it.
void narrowActivations(mlir::func::FuncOp function, llvm::function_ref<bool(train::PortAttr, bool)> isChosen = {});

} // namespace mebp
