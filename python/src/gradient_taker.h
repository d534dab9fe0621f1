// SPDX-License-Identifier: Apache-2.0
//
// A Python object that gradients are handed to, to be summed over processes while the step goes on (mebp.distributed).
#pragma once

#include "module.h"

namespace mebp::python {

class GradientTaker {
public:
  // With a method take(index, array), which gets each gradient's own memory until it is given back; and
  // norm(squares, sum), which gives the square of the whole gradient's norm, or None where what was taken is not what
  // is to be applied. Neither may raise.
  explicit GradientTaker(nb::object taker) : taker(std::move(taker)) {}
  bool isGiven() const { return taker.is_valid() && !taker.is_none(); }
  void giveTo(mebp_session_options &options);

private:
  mebp_code take(uint32_t trainable, float *gradient, uint64_t count);
  mebp_code norm(const double *squares, uint64_t count, double *sum);

  nb::object taker;
};

} // namespace mebp::python
