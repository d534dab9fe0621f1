// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, one trainable at a time, so that a gradient can be applied and forgotten as soon as it is there.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/core/status.h"

namespace mebp {

// In double, as torch keeps its options.
struct OptimizerOptions {
  double learningRate = 0;
  double beta1 = 0, beta2 = 0;
  double epsilon = 0; // AdamW's, or MeZO's perturbation
  double weightDecay = 0;
};

class Optimizer {
public:
  virtual ~Optimizer() = default;
  // How many arrays as long as the parameters it keeps from step to step; they begin as zeros.
  virtual uint32_t stateArrays() const = 0;
  // The update number `step`, counted from 1, of one trainable: its elements, its gradient, and its part of each array.
  virtual void update(const OptimizerOptions &options, uint64_t step, float *parameters, const float *gradient,
                      float *const *state, uint64_t count) const = 0;
};

Status checkOptions(const mebp_session_options &options);
// The decimal that the caller wrote: 0.999f is not 0.999, and torch computes with 0.999.
double decimalOf(float number);
OptimizerOptions optionsOf(const mebp_session_options &options);

// What a gradient adds to the square of its norm.
double squareOf(const float *gradient, uint64_t count);

uint32_t stateArraysOf(mebp_optimizer kind);
constexpr uint32_t maximumStateArrays = 2;
std::unique_ptr<Optimizer> makeOptimizer(mebp_optimizer kind);
std::unique_ptr<Optimizer> makeSgd();
std::unique_ptr<Optimizer> makeAdamw();

} // namespace mebp
