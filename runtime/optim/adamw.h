// SPDX-License-Identifier: Apache-2.0
//
// AdamW's update, for those that keep its two moments in their own ways.
#pragma once

#include <cmath>

#include "runtime/optim/optimizer.h"

namespace mebp {

// What is the same for all elements in a step.
struct AdamwFactors {
  AdamwFactors(const OptimizerOptions &options, uint64_t step);

  float updated(float parameter, float mean, float square) const {
    return parameter * decay - rate * mean / (std::sqrt(square) / correction + epsilon);
  }

  float decay, beta1, meanWeight, beta2, squareWeight, rate, correction, epsilon;
};

// With the moments in arrays 0 and 1, in f32.
void updateAdamw(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor);

} // namespace mebp
