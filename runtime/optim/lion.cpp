// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

namespace mebp {

// Chen et al., 2023, algorithm 2, in the order of lion-pytorch: the decay, the sign of the momentum nearly as it will
// be, then the momentum itself.
static void updateLion(const OptimizerOptions &options, uint64_t, const TrainedTensor &tensor) {
  auto rate = static_cast<float>(options.learningRate);
  auto decay = static_cast<float>(1 - options.learningRate * options.weightDecay);
  auto beta1 = static_cast<float>(options.beta1), weight1 = static_cast<float>(1 - options.beta1);
  auto beta2 = static_cast<float>(options.beta2), weight2 = static_cast<float>(1 - options.beta2);
  byPieces(tensor, [&](const Piece &piece) {
    float *__restrict mean = tensor.array<float>(0) + piece.first;
    for (uint64_t i = 0; i < piece.count; ++i) {
      float gradient = piece.gradient[i], direction = mean[i] * beta1 + weight1 * gradient;
      float sign = static_cast<float>(direction > 0) - static_cast<float>(direction < 0);
      piece.parameters[i] = piece.parameters[i] * decay - rate * sign;
      mean[i] = mean[i] * beta2 + weight2 * gradient;
    }
  });
}

const Optimizer lion = {"lion", {{&OptimizerOptions::beta1, 0.9}, {&OptimizerOptions::beta2, 0.99}}, updateLion};

} // namespace mebp
