// SPDX-License-Identifier: Apache-2.0
#include "gradient_taker.h"

namespace mebp::python {

// Called within a step, which has given Python's lock up.
void GradientTaker::giveTo(mebp_session_options &options) {
  if (!isGiven())
    return;
  options.on_gradient = [](void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
    *taken = true;
    return static_cast<GradientTaker *>(user)->take(trainable, gradient, count);
  };
  options.gradient_user = this;
  options.on_norm = [](void *user, const double *, uint64_t, double *) {
    return static_cast<GradientTaker *>(user)->complete();
  };
  options.norm_user = this;
}

mebp_code GradientTaker::take(uint32_t trainable, float *gradient, uint64_t count) {
  nb::gil_scoped_acquire locked;
  const nb::ndarray<nb::numpy, float, nb::ndim<1>> memory(gradient, {count});
  taker.attr("take")(trainable, nb::cast(memory, nb::rv_policy::reference)); // which is no copy
  return MEBP_OK;
}

mebp_code GradientTaker::complete() {
  nb::gil_scoped_acquire locked;
  return nb::cast<bool>(taker.attr("is_complete")()) ? MEBP_OK : MEBP_DISCONNECTED;
}

} // namespace mebp::python
