// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/Parameters.h"
#include "format/program.pb.h"

namespace mebp {

/// Lays out the frozen parameters of the model: regions by block, a parameter where it is first bound. Fills in
/// `bundle.weights` and `bundle.weights_bytes`; the order of the result is that of bundle.weights.
llvm::SmallVector<nn::ParameterOp> layOutWeights(mlir::ModuleOp module, format::Bundle &bundle);

/// The bytes of the file that they then take.
uint64_t countWeightBytes(mlir::ModuleOp module);

} // namespace mebp
