// SPDX-License-Identifier: Apache-2.0
//
// From complete gradients to changed parameters.
#include <cmath>

#include "runtime/train/session.h"

namespace mebp {

Status checkFinite(const char *name, double value) {
  if (std::isfinite(value))
    return Status();
  // Of a NaN, the sign means nothing.
  return failure(MEBP_NOT_FINITE, "the %s is %g; the parameters were not changed, a lower learning rate may help", name,
                 std::isnan(value) ? std::fabs(value) : value);
}

Status Session::readFiledState(uint64_t offset, void *data, uint64_t bytes) const {
  return spill.read(layout.filedStates + offset, data, bytes);
}

Status Session::writeFiledState(uint64_t offset, const void *data, uint64_t bytes) {
  Status status = spill.write(layout.filedStates + offset, data, bytes);
  spill.writeBack(layout.filedStates + offset, bytes);
  return status;
}

Status Session::atFailure(const Status &status) const {
  if (status.ok() || !updating)
    return status;
  return Status(status.code(), status.message() + "; some parameters have been updated: load the last saved state or "
                                                  "start anew");
}

Status Session::checkTrains() const {
  if (!settings.forward_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with forward_only, it cannot train");
}

Status Session::update(uint32_t trainable, const float *gradient) {
  float *state[format::maximumStateArrays] = {};
  bool filed = layout.filedStateBytes != 0;
  uint64_t bytes = elements(trainable) * sizeof(float), place = layout.trainables[trainable] - layout.trained;
  for (uint32_t i = 0; i < layout.states.size(); ++i) {
    state[i] = stateOf(trainable, i);
    if (filed)
      if (Status status = readFiledState(i * layout.arrayBytes + place, state[i], bytes); !status.ok())
        return atFailure(status);
  }
  updating = true;
  rule(optimizerOptions, stepsDone + 1, parameters(trainable), gradient, state, elements(trainable));
  for (uint32_t i = 0; filed && i < layout.states.size(); ++i)
    if (Status status = writeFiledState(i * layout.arrayBytes + place, state[i], bytes); !status.ok())
      return atFailure(status);
  return Status();
}

Status Session::apply(uint32_t trainable, const float *gradient) {
  squaredNorm += squareOf(gradient, elements(trainable));
  return update(trainable, gradient);
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
    if (Status status = update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

Status Session::applyGradients(const float *const *gradients) {
  if (Status status = checkTrains(); !status.ok())
    return status;
  updating = false;
  for (uint32_t i = 0; i < trainableCount(); ++i)
    if (Status status = update(i, gradients[i]); !status.ok())
      return status;
  ++stepsDone;
  return Status();
}

} // namespace mebp
