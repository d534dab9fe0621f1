// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/emit/WeightWriter.h"
#include "compiler/plan/MemoryPlan.h"

namespace mebp {

struct BundleOptions {
  PlanOptions plan;
  WeightOptions weights;
  std::string weightsName = "int4"; // as the command line calls them, for the manifest
  std::string embeddingsName = "int8";
  std::string precision = "f32";
  uint64_t seed = 0;     // of the adapter's initial values
  std::string tokenizer; // a folder to copy into the bundle; empty: none
};

/// Fills in everything of a bundle but the weights' bytes; `parameters` follow the order of bundle.weights.
llvm::SmallVector<nn::ParameterOp> buildBundle(mlir::ModuleOp module, const BundleOptions &options,
                                               const MemoryPlan &plan, format::Bundle &bundle);

/// Writes what buildBundle made as the folder `path`: into a folder beside it that is renamed when it is complete, so
/// that nothing is ever half-written. An older bundle of that name is replaced.
llvm::LogicalResult writeBundle(mlir::ModuleOp module, const BundleOptions &options,
                                llvm::ArrayRef<nn::ParameterOp> parameters, format::Bundle &bundle,
                                llvm::StringRef path);

} // namespace mebp
