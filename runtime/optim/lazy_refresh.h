// SPDX-License-Identifier: Apache-2.0
//
// When Q-GaLore finds a subspace anew: while it hardly turns, half as often (Zhang et al., 2024, section 3.2).
#pragma once

#include <cstdint>

#include "format/optimizers.h"

namespace mebp {

// What is kept of one tensor.
struct LazyRefresh {
  int64_t *numbers;    // format::PeriodNumber
  float *similarities; // of the last refreshes, as many as there were
  float *leading;      // the last projector's first vector

  // Whether a run can have left these; others would lead beyond `similarities`.
  static bool arePossible(const int64_t *numbers);
  bool isDue(uint64_t stepsDone) const;
  // Counts a refresh; one that is made again for the same step does not count. As published, the period doubles where
  // the last five similarities have a mean of at least `threshold`. A similarity is the cosine of the angle between the
  // first vectors of two projectors that follow each other; its sign, which a decomposition leaves open, does not
  // count.
  void take(const format::TrainedShape &tensor, uint64_t stepsDone, const float *projector, int64_t firstPeriod,
            double threshold) const;
};

} // namespace mebp
