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
  std::string kernel;
  std::vector<Tensor> operands, results;
  std::vector<self_test::Attribute> attributes;
  int64_t tokens; // of the step that it is made in
};

// `quick`: few and small ones, to try the way and not to learn from it.
std::vector<TimedCall> listTimedCalls(Pools &pools, bool quick);

// A program of so many calls beside each other, of which none is another's.
format::Program programOf(const TimedCall &call, size_t copies);

} // namespace mebp
