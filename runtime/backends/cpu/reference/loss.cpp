// SPDX-License-Identifier: Apache-2.0
//
// logits, p, dlogits [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, weighted, target, coefficients [N,1];
// accumulator, dx [N,D]; w [V,D]. Logits are capped where there is a softcap, and then multiplied with
// context.logitScale.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>
#include <cmath>

namespace mebp::cpu::reference {

namespace {

// The logits as the softmax has them, and their slopes: what they grow by with what the head's product gives.
struct Logits {
  double scale, cap;

  double at(double product) const { return scale * (cap > 0 ? cap * std::tanh(product / cap) : product); }
  // Of what `at` has given.
  double slopeAt(double logit) const {
    const double bounded = cap > 0 ? logit / (scale * cap) : 0;
    return scale * (1 - bounded * bounded);
  }
};

} // namespace

static void logProbabilityTile(const Call &call, const Context &context) {
  const Logits scaled{context.logitScale, call.attributes.softcap};
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &p = call.results[0];
  const Tensor &max = call.results[1], &sum = call.results[2], &weighted = call.results[3], &target = call.results[4];
  const Tensor &accumulator = resultOf(call, 5);
  for (int64_t n = 0; n < logits.rows; ++n) {
    const float *in = floatRowOf(logits, n);
    int64_t label = labelOf(labels, n) - logits.firstColumn;
    double before = *floatRowOf(max, n);
    double maximum = std::max(before, scaled.at(*std::max_element(in, in + logits.columns)));
    double correction = std::exp(before - maximum), total = correction * *floatRowOf(sum, n);
    double moment = correction > 0 ? correction * *floatRowOf(weighted, n) + (before - maximum) * total : 0;
    if (label >= 0 && label < logits.columns)
      *floatRowOf(target, n) = static_cast<float>(scaled.at(in[label]));
    for (int64_t c = 0; c < logits.columns; ++c) {
      double logit = scaled.at(in[c]), below = logit - maximum, exponential = c == label ? 0.0 : std::exp(below);
      total += exponential;
      moment += exponential * below;
      rowOf(p, n).set(c, static_cast<float>(exponential * scaled.slopeAt(logit) / scaled.scale));
    }
    for (int64_t i = 0; i < accumulator.columns; ++i)
      floatRowOf(accumulator, n)[i] *= static_cast<float>(correction);
    *floatRowOf(max, n) = static_cast<float>(maximum);
    *floatRowOf(sum, n) = static_cast<float>(total);
    *floatRowOf(weighted, n) = static_cast<float>(moment);
  }
}

static void logProbabilityLogitsGradient(const Call &call, const Context &context) {
  const Logits scaled{context.logitScale, call.attributes.softcap};
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &max = call.operands[2], &sum = call.operands[3];
  const Tensor &target = call.operands[4], &coefficients = call.operands[5], &gradient = call.results[0];
  const Tensor &weighted = operandOf(call, 6), &entropyCoefficients = operandOf(call, 7);
  for (int64_t n = 0; n < logits.rows; ++n) {
    int64_t label = labelOf(labels, n) - logits.firstColumn;
    const double maximum = *floatRowOf(max, n), others = *floatRowOf(sum, n), gap = maximum - *floatRowOf(target, n);
    const double own = std::exp(-gap), z = others + own, factor = *floatRowOf(coefficients, n) / z;
    double ofEntropy = 0, mean = 0;
    if (entropyCoefficients.present()) {
      ofEntropy = *floatRowOf(entropyCoefficients, n) / z;
      mean = (*floatRowOf(weighted, n) - own * gap) / z;
    }
    for (int64_t c = 0; c < logits.columns; ++c) {
      const double logit = c == label ? *floatRowOf(target, n) : scaled.at(floatRowOf(logits, n)[c]);
      const double below = logit - maximum, exponential = std::exp(below);
      const double term = factor * (c == label ? others : -exponential) - ofEntropy * exponential * (below - mean);
      floatRowOf(gradient, n)[c] = labelOf(labels, n) < 0 ? 0.0f : static_cast<float>(term * scaled.slopeAt(logit));
    }
  }
}

static void logProbabilityFromTiles(const Call &call, const Context &context) {
  const Tensor &labels = call.operands[0], &max = call.operands[1], &sum = call.operands[2];
  const Tensor &weighted = call.operands[3], &target = call.operands[4];
  const Tensor &coefficients = operandOf(call, 5), &accumulator = operandOf(call, 6), &w = operandOf(call, 7);
  const Tensor &logProbabilities = call.results[0], &entropy = call.results[1], &dx = resultOf(call, 2);
  auto *weights = reinterpret_cast<float *>(context.workspace);
  for (int64_t n = 0; n < labels.rows; ++n) {
    int32_t label = labelOf(labels, n);
    if (label < 0) {
      *floatRowOf(logProbabilities, n) = *floatRowOf(entropy, n) = 0;
      if (dx.present())
        std::fill_n(floatRowOf(dx, n), dx.columns, 0.0f);
      continue;
    }
    double others = *floatRowOf(sum, n), gap = static_cast<double>(*floatRowOf(max, n)) - *floatRowOf(target, n);
    double own = std::exp(-gap), z = others + own;
    *floatRowOf(logProbabilities, n) = static_cast<float>(-(std::log(z) + gap));
    *floatRowOf(entropy, n) = static_cast<float>(std::log(z) - (*floatRowOf(weighted, n) - own * gap) / z);
    if (!dx.present())
      continue;
    dequantizeRow(w, label, weights);
    const Logits scaled{context.logitScale, call.attributes.softcap};
    double factor = scaled.scale * *floatRowOf(coefficients, n) / z;
    double rest = others * scaled.slopeAt(*floatRowOf(target, n)) / scaled.scale;
    for (int64_t i = 0; i < dx.columns; ++i)
      floatRowOf(dx, n)[i] = static_cast<float>(factor * (rest * weights[i] - floatRowOf(accumulator, n)[i]));
  }
}

constexpr NamedKernel entries[] = {{"log_probability_tile", logProbabilityTile},
                                   {"log_probability_logits_gradient", logProbabilityLogitsGradient},
                                   {"log_probability_from_tiles", logProbabilityFromTiles}};
constexpr KernelTable lossKernels = entries;

} // namespace mebp::cpu::reference
