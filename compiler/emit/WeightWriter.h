// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/emit/Quantize.h"
#include "dialects/train/Train.h"
#include "format/program.pb.h"

#include <functional>

namespace mebp {

struct WeightOptions {
  WeightFormat matrices = WeightFormat::Int4;
  WeightFormat embeddings = WeightFormat::Int8; // tables and the head
  std::optional<uint64_t> randomSeed;
  std::function<bool()> isInterrupted = [] { return false; }; // asked every 16 batches; writing then stops
};

/// Lays out the frozen parameters of the model: regions by block, a parameter where it is first bound. Fills in
/// `bundle.weights` and `bundle.weights_bytes`; the order of the result is that of bundle.weights.
llvm::SmallVector<nn::ParameterOp> layOutWeights(mlir::ModuleOp module, const WeightOptions &options,
                                                 format::Bundle &bundle);

/// The bytes of the file that they then take.
uint64_t countWeightBytes(mlir::ModuleOp module, const WeightOptions &options);

/// Writes them to `path`, a few rows at a time; the model is never held. `digest` is the CRC of all that was stored, in
/// the order of writing: it tells bundles apart that differ in their weights alone. NaN and infinite values are
/// refused. On failure, after a diagnostic, the file is incomplete; so it is after an interruption, which needs none.
llvm::LogicalResult writeWeights(llvm::ArrayRef<nn::ParameterOp> parameters, const WeightOptions &options,
                                 const format::Bundle &bundle, llvm::StringRef path, uint32_t &digest);

} // namespace mebp
