// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/fit.h"

#include <cmath>

namespace mebp {

using format::Rates;
using format::termCount;

namespace {

// Normal equations, in units in which every term's diagonal is 1: amounts differ by nine orders of magnitude.
struct Equations {
  double matrix[termCount][termCount] = {}, right[termCount] = {}, scale[termCount] = {};

  explicit Equations(const std::vector<Sample> &samples) {
    for (size_t i = 0; i < termCount; ++i) {
      for (const Sample &sample : samples)
        scale[i] += std::pow(sample.amounts[i] / sample.nanoseconds, 2);
      scale[i] = std::sqrt(scale[i]);
    }
    for (const Sample &sample : samples)
      for (size_t i = 0; i < termCount; ++i)
        if (scale[i] > 0) {
          double relative = sample.amounts[i] / sample.nanoseconds / scale[i];
          right[i] += relative;
          for (size_t j = 0; j < termCount; ++j)
            if (scale[j] > 0)
              matrix[i][j] += relative * sample.amounts[j] / sample.nanoseconds / scale[j];
        }
  }
};

// Gauss and Jordan, of the terms that are `used`. What cannot be told apart from other terms becomes 0.
Rates solve(Equations equations, const bool *used) {
  auto &[matrix, right, scale] = equations;
  Rates rates = {};
  bool pivots[termCount] = {};
  for (size_t i = 0; i < termCount; ++i) {
    if (!used[i] || matrix[i][i] < 1e-9)
      continue;
    pivots[i] = true;
    for (size_t row = 0; row < termCount; ++row) {
      if (row == i || !used[row])
        continue;
      double factor = matrix[row][i] / matrix[i][i];
      for (size_t column = 0; column < termCount; ++column)
        matrix[row][column] -= factor * matrix[i][column];
      right[row] -= factor * right[i];
    }
  }
  for (size_t i = 0; i < termCount; ++i)
    if (pivots[i])
      rates[i] = right[i] / matrix[i][i] / scale[i];
  return rates;
}

} // namespace

// Leaves out the most negative term until none is.
Rates fitRates(const std::vector<Sample> &samples) {
  Equations equations(samples);
  bool used[termCount];
  for (size_t i = 0; i < termCount; ++i)
    used[i] = equations.scale[i] > 0;
  for (;;) {
    Rates rates = solve(equations, used);
    size_t worst = 0;
    for (size_t i = 1; i < termCount; ++i)
      if (rates[i] * equations.scale[i] < rates[worst] * equations.scale[worst])
        worst = i;
    if (rates[worst] >= 0)
      return rates;
    used[worst] = false;
  }
}

} // namespace mebp
