// SPDX-License-Identifier: Apache-2.0
//
// A Python object that gradients are handed to, to be summed over processes while the step goes on; or what is sent
// instead of them, and beside them (mebp.distributed.taker).
#pragma once

#include "module.h"

#include <utility>

namespace mebp::python {

class GradientTaker {
public:
  explicit GradientTaker(nb::object taker) : taker(std::move(taker)) {}
  bool isGiven() const { return taker.is_valid() && !taker.is_none(); }
  void giveTo(mebp_session_options &options);
  // Which of how many parts of what is updated the session has.
  std::pair<uint32_t, uint32_t> part() const;

private:
  mebp_code take(uint32_t trainable, float *gradient, uint64_t count);
  mebp_code norm(const double *squares, uint64_t count, double *sum);
  mebp_code sumLoss(double *loss);
  mebp_code sumProducts(float *sums, uint64_t count);

  nb::object taker;
  mebp_shared_sums sums = {};
};

} // namespace mebp::python
