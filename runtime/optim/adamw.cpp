// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/optim/optimizer.h"

namespace mebp {

// torch.optim.AdamW in the order of its single-tensor implementation: factors in double, elements in float.
void updateAdamw(const OptimizerOptions &options, uint64_t step, float *__restrict parameters,
                 const float *__restrict gradient, float *const *state, uint64_t count) {
  float *__restrict mean = state[0];
  float *__restrict square = state[1];
  auto steps = static_cast<double>(step);
  auto decay = static_cast<float>(1 - options.learningRate * options.weightDecay);
  auto meanWeight = static_cast<float>(1 - options.beta1);
  auto beta1 = static_cast<float>(options.beta1);
  auto beta2 = static_cast<float>(options.beta2), squareWeight = static_cast<float>(1 - options.beta2);
  auto rate = static_cast<float>(options.learningRate / (1 - std::pow(options.beta1, steps)));
  auto correction = static_cast<float>(std::sqrt(1 - std::pow(options.beta2, steps)));
  auto epsilon = static_cast<float>(options.epsilon);
  // torch interpolates from the nearer end.
  bool nearMean = meanWeight < 0.5f;
  for (uint64_t i = 0; i < count; ++i) {
    float difference = gradient[i] - mean[i];
    float first = nearMean ? mean[i] + meanWeight * difference : gradient[i] - difference * beta1;
    float second = square[i] * beta2 + squareWeight * gradient[i] * gradient[i];
    parameters[i] = parameters[i] * decay - rate * first / (std::sqrt(second) / correction + epsilon);
    mean[i] = first;
    square[i] = second;
  }
}

} // namespace mebp
