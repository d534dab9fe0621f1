// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/adamw.h"

#include <cmath>

namespace mebp {

AdamwFactors::AdamwFactors(const OptimizerOptions &options, uint64_t step) {
  auto steps = static_cast<double>(step);
  decay = static_cast<float>(1 - options.learningRate * options.weightDecay);
  beta1 = static_cast<float>(options.beta1), meanWeight = static_cast<float>(1 - options.beta1);
  beta2 = static_cast<float>(options.beta2), squareWeight = static_cast<float>(1 - options.beta2);
  rate = static_cast<float>(options.learningRate / (1 - std::pow(options.beta1, steps)));
  correction = static_cast<float>(std::sqrt(1 - std::pow(options.beta2, steps)));
  epsilon = static_cast<float>(options.epsilon);
}

// torch.optim.AdamW in the order of its single-tensor implementation.
void updateAdamw(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor) {
  const AdamwFactors factors(options, step);
  // torch interpolates from the nearer end.
  const bool nearMean = factors.meanWeight < 0.5f;
  byPieces(tensor, [&](const Piece &piece) {
    float *__restrict mean = tensor.array<float>(0) + piece.first;
    float *__restrict square = tensor.array<float>(1) + piece.first;
    for (uint64_t i = 0; i < piece.count; ++i) {
      float gradient = piece.gradient[i], difference = gradient - mean[i];
      float first = nearMean ? mean[i] + factors.meanWeight * difference : gradient - difference * factors.beta1;
      float second = square[i] * factors.beta2 + factors.squareWeight * gradient * gradient;
      piece.parameters[i] = factors.updated(piece.parameters[i], first, second);
      mean[i] = first;
      square[i] = second;
    }
  });
}

const Optimizer adamw = {
    "adamw",
    {{&OptimizerOptions::beta1, 0.9}, {&OptimizerOptions::beta2, 0.999}, {&OptimizerOptions::epsilon, 1e-8}},
    updateAdamw};

} // namespace mebp
