// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/emit/Quantize.h"
#include "dialects/nn/Parameters.h"
#include "dialects/train/Train.h"
#include "format/program.pb.h"

namespace mebp {

/// Writes frozen parameters, in the order of bundle.weights, to `path`, a few rows at a time; the model is never held.
/// `digest` is the CRC of all that was stored, in the order of writing: it tells bundles apart that differ in their
/// weights alone. NaN and infinite values are refused. On failure, after a diagnostic, the file is incomplete; so it is
/// after an interruption, which needs none. `isInterrupted` is asked every 16 batches.
llvm::LogicalResult writeWeights(llvm::ArrayRef<nn::ParameterOp> parameters, std::optional<uint64_t> randomSeed,
                                 const format::Bundle &bundle, llvm::function_ref<bool()> isInterrupted,
                                 llvm::StringRef path, uint32_t &digest);

} // namespace mebp
