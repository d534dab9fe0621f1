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

Status Session::checkTrains() const {
  if (!settings.forward_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with forward_only, it cannot train");
}

// Clips as torch's clip_grad_norm_ does, in place. Nothing is updated before the whole gradient is known to be finite.
Status Session::applyKept(double &squaredNorm) {
  for (uint32_t i = 0; i < trainables.count(); ++i)
    squaredNorm += squareOf(gradients.of(i), trainables.elements(i));
  double norm = std::sqrt(squaredNorm);
  if (Status status = checkFinite("gradient's norm", norm); !status.ok())
    return status;
  double factor = static_cast<double>(settings.clip) / (norm + 1e-6);
  for (uint32_t i = 0; i < trainables.count(); ++i) {
    float *gradient = gradients.of(i);
    if (settings.clip > 0 && factor < 1)
      for (uint64_t element = 0; element < trainables.elements(i); ++element)
        gradient[element] *= static_cast<float>(factor);
    if (Status status = trainables.update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

Status Session::applyGradients(const float *const *given) {
  if (Status status = checkTrains(); !status.ok())
    return status;
  trainables.beginStep();
  Status status;
  for (uint32_t i = 0; status.ok() && i < trainables.count(); ++i)
    status = trainables.update(i, given[i]);
  return trainables.endStep(status);
}

} // namespace mebp
