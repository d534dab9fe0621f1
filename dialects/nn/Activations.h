// SPDX-License-Identifier: Apache-2.0
//
// Activations, each with its pullback, and gated units.
#pragma once

#include "dialects/nn/NN.h"
#include "format/activations.h"

namespace mebp::nn {

/// The cotangent of an activation's input: the op of its name with _gradient behind it, and its attributes.
mlir::Value buildActivationGradient(mlir::OpBuilder &builder, mlir::Operation *activation, mlir::Value cotangent);

} // namespace mebp::nn

#define GET_OP_CLASSES
#include "dialects/nn/NNActivationOps.h.inc"
