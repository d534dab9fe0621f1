// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "format/rates.h"

namespace mebp {

// A kernel call that was timed.
struct Sample {
  format::Amounts amounts;
  double nanoseconds;
};

// The rates whose relative errors on the samples have the smallest sum of squares, none of them negative. Terms that no
// sample has cost nothing.
format::Rates fitRates(const std::vector<Sample> &samples);

} // namespace mebp
