// SPDX-License-Identifier: Apache-2.0
//
// A Python object that hands in the weights of each block, of which this process has a part (mebp.distributed.weights).
#pragma once

#include "module.h"

namespace mebp::python {

class BlockWeights {
public:
  // With methods ask(block, next), which gives the address at which they will lie, or 0 for the bundle's own file;
  // ready(block), which returns when they do, and whether they do; and free(block). None may raise.
  // `ahead`: blocks that are asked for before they run.
  explicit BlockWeights(nb::object weights) : weights(std::move(weights)) {}
  bool isGiven() const { return weights.is_valid() && !weights.is_none(); }
  void giveTo(mebp_session_options &options);

private:
  mebp_code ask(uint32_t block, uint32_t next, const void **out);
  mebp_code ready(uint32_t block);

  nb::object weights;
};

} // namespace mebp::python
