// SPDX-License-Identifier: Apache-2.0
//
// From complete gradients to changed parameters.
#include <cmath>

#include "runtime/train/session.h"

namespace mebp {

static double squareOf(const float *values, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

Status checkFinite(const char *name, double value) {
  if (std::isfinite(value))
    return Status();
  // Of a NaN, the sign means nothing.
  return failure(MEBP_NOT_FINITE, "the %s is %g; the parameters were not changed, a lower learning rate may help", name,
                 std::isnan(value) ? std::fabs(value) : value);
}

void Session::update(uint32_t trainable, const float *gradient) {
  float *state[maximumStateArrays] = {};
  for (uint32_t i = 0; i < layout.states.size(); ++i)
    state[i] = stateOf(trainable, i);
  optimizer->update(optimizerOptions, stepsDone + 1, parameters(trainable), gradient, state, elements(trainable));
}

void Session::apply(uint32_t trainable, const float *gradient) {
  squaredNorm += squareOf(gradient, elements(trainable));
  update(trainable, gradient);
}

// Clips as torch's clip_grad_norm_ does, in place. Nothing is updated before the whole gradient is known to be finite.
Status Session::applyKept() {
  for (uint32_t i = 0; i < trainableCount(); ++i)
    squaredNorm += squareOf(keptGradient(i), elements(i));
  double norm = std::sqrt(squaredNorm);
  if (Status status = checkFinite("gradient's norm", norm); !status.ok())
    return status;
  double factor = static_cast<double>(settings.clip) / (norm + 1e-6);
  for (uint32_t i = 0; i < trainableCount(); ++i) {
    float *gradient = keptGradient(i);
    if (settings.clip > 0 && factor < 1)
      for (uint64_t element = 0; element < elements(i); ++element)
        gradient[element] *= static_cast<float>(factor);
    update(i, gradient);
  }
  return Status();
}

void Session::applyGradients(const float *const *gradients) {
  for (uint32_t i = 0; i < trainableCount(); ++i)
    update(i, gradients[i]);
  ++stepsDone;
}

} // namespace mebp
