// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

namespace mebp {

// torch.optim.SGD without dampening: d = g + decay p, and with a momentum m, of which the buffer b begins as the first
// d, b = m b + d in its place; p -= lr d.
static void updateSgd(const OptimizerOptions &options, uint64_t, const TrainedTensor &tensor) {
  auto rate = static_cast<float>(options.learningRate), decay = static_cast<float>(options.weightDecay);
  auto momentum = static_cast<float>(options.momentum);
  byPieces(tensor, [&](const Piece &piece) {
    float *__restrict parameters = piece.parameters;
    if (!tensor.kept[0]) {
      for (uint64_t i = 0; i < piece.count; ++i)
        parameters[i] -= rate * (piece.gradient[i] + decay * parameters[i]);
      return;
    }
    float *__restrict buffer = tensor.array<float>(0) + piece.first;
    for (uint64_t i = 0; i < piece.count; ++i) {
      buffer[i] = momentum * buffer[i] + (piece.gradient[i] + decay * parameters[i]);
      parameters[i] -= rate * buffer[i];
    }
  });
}

const Optimizer sgd = {"sgd", {{&OptimizerOptions::momentum, 0}}, updateSgd};

// With a gradient that a caller gives it is SGD; without one, runtime/train/mezo_step.cpp steps.
const Optimizer mezo = {"mezo", {{&OptimizerOptions::perturbation, 1e-3}}, updateSgd};

} // namespace mebp
