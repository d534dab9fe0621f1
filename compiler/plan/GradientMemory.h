// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "dialects/nn/Parameters.h"
#include "dialects/train/Train.h"
#include "format/optimizers.h"

namespace mebp {

/// Whether it goes to a sink; what a projector is found by does not.
bool isGradient(train::PortAttr port);

format::TrainedShape getTrainedShape(nn::ParameterOp parameter);

/// What gradients need, by what becomes of them (runtime/train/gradients.h).
struct GradientNeeds {
  uint64_t applied = 0, kept = 0, summed = 0;
  uint64_t scratch = 0; // of `summed`: before it is added
};

/// `headBytes`: what the head takes and gives. `subspaceSums`: what sums of thin products take instead, in a step that
/// looks for projectors.
GradientNeeds countGradients(mlir::ModuleOp module, uint64_t headBytes, uint64_t subspaceSums);

} // namespace mebp
