// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/emit/WeightWriter.h"
#include "compiler/plan/MemoryPlan.h"
#include "dialects/nn/Parameters.h"

namespace mebp {

/// Of a module whose budget chose to spill: seconds and peak of the fastest plan within it that does not, or 0 and the
/// least peak of such plans.
constexpr llvm::StringLiteral withoutSpillAttribute = "mebp.without_spill";

/// Fills in a bundle's plan.
void setPlan(mlir::ModuleOp module, const Options &options, const MemoryPlan &plan, format::Plan &message);

/// Writes what buildBundle (compiler/bundle) and setPlan made as the folder `path`: into a folder beside it that is
/// renamed when it is complete, so that nothing is ever half-written. An older bundle of that name is replaced.
/// `tokenizer` is a folder to copy into it; empty: none. `check` says why a runtime would refuse what was written,
/// which is then dropped.
llvm::LogicalResult writeBundle(mlir::ModuleOp module, const Options &options, llvm::StringRef tokenizer,
                                llvm::function_ref<bool()> isInterrupted,
                                llvm::function_ref<std::string(const std::string &)> check,
                                llvm::ArrayRef<nn::ParameterOp> parameters, format::Bundle &bundle,
                                llvm::StringRef path);

} // namespace mebp
