// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "dialects/nn/Parameters.h"
#include "format/program.pb.h"

namespace mebp {

/// Fills in everything of a bundle but its plan and the weights' bytes, of a module of placed programs; `parameters`
/// follow the order of bundle.weights.
llvm::SmallVector<nn::ParameterOp> buildBundle(mlir::ModuleOp module, const Options &options, format::Bundle &bundle);

} // namespace mebp
