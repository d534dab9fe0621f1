// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, one trainable at a time, so that a gradient can be applied and forgotten as soon as it is there.
#pragma once

#include <cstdint>

#include "format/optimizers.h"
#include "runtime/core/status.h"

namespace mebp {

// In double, as torch keeps its options.
struct OptimizerOptions {
  double learningRate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0; // AdamW's, or MeZO's perturbation
  double weightDecay = 0;
};

// The update number `step`, counted from 1, of one trainable: its elements, its gradient, and its part of each array of
// state (format/optimizers.h), which begins as zeros.
using Update = void (*)(const OptimizerOptions &options, uint64_t step, float *parameters, const float *gradient,
                        float *const *state, uint64_t count);
void updateAdamw(const OptimizerOptions &options, uint64_t step, float *parameters, const float *gradient,
                 float *const *state, uint64_t count);
void updateSgd(const OptimizerOptions &options, uint64_t step, float *parameters, const float *gradient,
               float *const *state, uint64_t count);

// Of an optimizer that checkOptions has passed. With a gradient that a caller gives, MeZO is SGD; without one,
// runtime/train/mezo.cpp steps.
Update updateOf(mebp_optimizer optimizer);

// Of a session's options, and of a rate that is set later.
Status checkOptions(const mebp_session_options &options);
Status checkLearningRate(double rate);
OptimizerOptions optionsOf(const mebp_session_options &options);

// What a gradient adds to the square of its norm.
double squareOf(const float *gradient, uint64_t count);

} // namespace mebp
