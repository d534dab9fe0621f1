// SPDX-License-Identifier: Apache-2.0
//
// The kernel calls that calibration times: every kernel, at a few sizes, and the products in every way that weights and
// activations are stored.
#pragma once

#include <string>
#include <vector>

#include "format/rates.h"
#include "runtime/calibrate/pools.h"

namespace mebp {

struct TimedCall {
  std::string rate; // the name of format/rates.h
  format::Amounts amounts;
  cpu::Kernel kernel;
  std::vector<cpu::Tensor> operands, results;
  Attributes attributes;
  int64_t sequence;
  int frozen = -1; // the operand that is another part of the pool in each call
};

// `quick`: few and small ones, to try the way and not to learn from it.
std::vector<TimedCall> listTimedCalls(Pools &pools, bool quick);

} // namespace mebp
