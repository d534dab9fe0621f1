// SPDX-License-Identifier: Apache-2.0
#include "gradient_taker.h"

#include <nanobind/stl/pair.h>

namespace mebp::python {

// Called within a step, which has given Python's lock up.
void GradientTaker::giveTo(mebp_session_options &options) {
  if (!isGiven())
    return;
  options.shared_sums = &sums;
  sums.user = this;
  if (options.optimizer == MEBP_MEZO) {
    sums.on_loss = [](void *user, double *loss) { return static_cast<GradientTaker *>(user)->sumLoss(loss); };
    return;
  }
  if (options.optimizer == MEBP_GALORE || options.optimizer == MEBP_QGALORE)
    sums.on_subspace = [](void *user, uint32_t, float *sums, uint64_t count) {
      return static_cast<GradientTaker *>(user)->sumProducts(sums, count);
    };
  options.on_gradient = [](void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
    *taken = true;
    return static_cast<GradientTaker *>(user)->take(trainable, gradient, count);
  };
  options.gradient_user = this;
  options.on_norm = [](void *user, const double *squares, uint64_t count, double *sum) {
    return static_cast<GradientTaker *>(user)->norm(squares, count, sum);
  };
  options.norm_user = this;
}

std::pair<uint32_t, uint32_t> GradientTaker::part() const {
  return isGiven() ? nb::cast<std::pair<uint32_t, uint32_t>>(taker.attr("part")) : std::pair<uint32_t, uint32_t>(0, 1);
}

mebp_code GradientTaker::take(uint32_t trainable, float *gradient, uint64_t count) {
  nb::gil_scoped_acquire locked;
  const nb::ndarray<nb::numpy, float, nb::ndim<1>> memory(gradient, {count});
  taker.attr("take")(trainable, nb::cast(memory, nb::rv_policy::reference)); // which is no copy
  return MEBP_OK;
}

mebp_code GradientTaker::norm(const double *squares, uint64_t count, double *sum) {
  nb::gil_scoped_acquire locked;
  const nb::ndarray<nb::numpy, const double, nb::ndim<1>> tiles(squares, {count});
  const nb::object whole = taker.attr("norm")(nb::cast(tiles, nb::rv_policy::reference), *sum);
  if (whole.is_none())
    return MEBP_DISCONNECTED;
  *sum = nb::cast<double>(whole);
  return MEBP_OK;
}

mebp_code GradientTaker::sumLoss(double *loss) {
  nb::gil_scoped_acquire locked;
  const nb::object whole = taker.attr("sum_loss")(*loss);
  if (whole.is_none())
    return MEBP_DISCONNECTED;
  *loss = nb::cast<double>(whole);
  return MEBP_OK;
}

mebp_code GradientTaker::sumProducts(float *sums, uint64_t count) {
  nb::gil_scoped_acquire locked;
  const nb::ndarray<nb::numpy, float, nb::ndim<1>> memory(sums, {count});
  return nb::cast<bool>(taker.attr("sum_products")(nb::cast(memory, nb::rv_policy::reference))) ? MEBP_OK
                                                                                                : MEBP_DISCONNECTED;
}

} // namespace mebp::python
