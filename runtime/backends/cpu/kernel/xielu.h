// SPDX-License-Identifier: Apache-2.0
//
// What xielu makes of its two weights, once for a call.
#pragma once

#include "runtime/backends/cpu/kernel/operands.h"

#include <cmath>

namespace mebp::cpu {

struct XieluFactors {
  double positive; // of x², above 0
  double negative; // of exp(x) − 1 − x, below it
};

inline XieluFactors xieluFactorsOf(const Call &call, size_t firstWeight) {
  float alphas[2];
  for (size_t i = 0; i < 2; ++i)
    dequantizeRow(call.operands[firstWeight + i], 0, alphas + i);
  auto softplus = [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); };
  return {softplus(alphas[0]), call.attributes.beta + softplus(alphas[1])};
}

} // namespace mebp::cpu
