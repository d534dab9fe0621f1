// SPDX-License-Identifier: Apache-2.0
//
// logits, p, dlogits [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, weighted, target, coefficients [N,1];
// accumulator, dx [N,D]; w [V,D]. Logits are multiplied with context.logitScale first.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/loss.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

static float maximumOf(const float *values, int64_t count) {
  const FloatTag d;
  float maximum = values[0];
  int64_t i = 0;
  if (count >= lanes) {
    FloatVector best = hn::LoadU(d, values);
    for (i = lanes; i + lanes <= count; i += lanes)
      best = hn::Max(best, hn::LoadU(d, values + i));
    maximum = hn::GetLane(hn::MaxOfLanes(d, best));
  }
  for (; i < count; ++i)
    maximum = std::max(maximum, values[i]);
  return maximum;
}

void LogProbabilityTile(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &p = call.results[0];
  const Tensor &max = call.results[1], &sum = call.results[2], &weighted = call.results[3], &target = call.results[4];
  const Tensor &accumulator = resultOf(call, 5);
  const FloatVector scale = hn::Set(d, context.logitScale);
  parallelRows(context, logits.rows, logits.columns, [&](int64_t row) HWY_ATTR {
    const float *in = floatRowOf(logits, row);
    float *out = floatRowOf(p, row);
    int64_t label = labelOf(labels, row) - logits.firstColumn, columns = logits.columns;
    bool hit = label >= 0 && label < columns;
    float before = *floatRowOf(max, row), maximum = std::max(before, context.logitScale * maximumOf(in, columns));
    auto correction = static_cast<float>(std::exp(static_cast<double>(before) - maximum));
    if (hit)
      *floatRowOf(target, row) = context.logitScale * in[label];
    float moment = sumRow(columns, [&](int64_t i, int64_t n) HWY_ATTR {
      const FloatVector below = hn::MulSub(scale, loadSome(in + i, n), hn::Set(d, maximum));
      const FloatVector exponential = exponentialOf(below);
      storeSome(exponential, out + i, n);
      const FloatVector product = hn::Mul(exponential, below);
      return n >= lanes ? product : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), product);
    });
    if (hit) {
      moment -= out[label] * (*floatRowOf(target, row) - maximum);
      out[label] = 0;
    }
    float total = sumRow(columns, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(out + i, n); });
    float *scaled = accumulator.present() && correction != 1.0f ? floatRowOf(accumulator, row) : nullptr;
    if (scaled)
      mapRow(scaled, accumulator.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(hn::Set(d, correction), loadSome(scaled + i, n)); });
    const float kept = correction * *floatRowOf(sum, row);
    *floatRowOf(max, row) = maximum;
    *floatRowOf(sum, row) = kept + total;
    // What was summed before lies below another maximum; nothing of it is left where the first one is minus infinity.
    *floatRowOf(weighted, row) =
        moment + (correction > 0 ? correction * *floatRowOf(weighted, row) + (before - maximum) * kept : 0);
  });
}

void LogProbabilityLogitsGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &max = call.operands[2], &sum = call.operands[3];
  const Tensor &target = call.operands[4], &coefficients = call.operands[5], &gradient = call.results[0];
  const Tensor &weighted = operandOf(call, 6), &entropyCoefficients = operandOf(call, 7);
  const FloatVector scale = hn::Set(d, context.logitScale);
  parallelRows(context, logits.rows, logits.columns, [&](int64_t row) HWY_ATTR {
    const float *in = floatRowOf(logits, row);
    float *out = floatRowOf(gradient, row);
    if (labelOf(labels, row) < 0) {
      std::fill_n(out, logits.columns, 0.0f);
      return;
    }
    const double others = *floatRowOf(sum, row);
    const double gap = static_cast<double>(*floatRowOf(max, row)) - *floatRowOf(target, row);
    const double own = std::exp(-gap), z = others + own, logitScale = context.logitScale;
    const double factor = logitScale * *floatRowOf(coefficients, row) / z;
    const FloatVector negative = hn::Set(d, static_cast<float>(-factor)), shift = hn::Set(d, *floatRowOf(max, row));
    const int64_t label = labelOf(labels, row) - logits.firstColumn;
    const bool hit = label >= 0 && label < logits.columns;
    double ofLabel = factor * others;
    if (!entropyCoefficients.present()) {
      mapRow(out, logits.columns, [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(negative, exponentialOf(hn::MulSub(scale, loadSome(in + i, n), shift)));
      });
    } else {
      // What is multiplied with an exponential is -factor - ofEntropy (below - mean).
      const double ofEntropy = logitScale * *floatRowOf(entropyCoefficients, row) / z;
      const double mean = (*floatRowOf(weighted, row) - own * gap) / z;
      const FloatVector slope = hn::Set(d, static_cast<float>(ofEntropy)),
                        middle = hn::Set(d, static_cast<float>(mean));
      if (hit) { // its logit may lie where its cotangent goes
        const double below = logitScale * in[label] - *floatRowOf(max, row);
        ofLabel -= ofEntropy * std::exp(below) * (below - mean);
      }
      mapRow(out, logits.columns, [&](int64_t i, int64_t n) HWY_ATTR {
        const FloatVector below = hn::MulSub(scale, loadSome(in + i, n), shift);
        return hn::Mul(hn::NegMulAdd(slope, hn::Sub(below, middle), negative), exponentialOf(below));
      });
    }
    if (hit)
      out[label] = static_cast<float>(ofLabel);
  });
}

// dx of one row: factor (sum w[label] - accumulator).
static void finishRow(const float *accumulator, const float *weights, float factor, float sum, float *out,
                      int64_t columns) {
  const FloatTag d;
  const FloatVector outer = hn::Set(d, factor), inner = hn::Set(d, sum);
  mapRow(out, columns, [&](int64_t i, int64_t n) HWY_ATTR {
    return hn::Mul(outer, hn::MulSub(inner, loadSome(weights + i, n), loadSome(accumulator + i, n)));
  });
}

void LogProbabilityFromTiles(const Call &call, const Context &context) {
  const Tensor &labels = call.operands[0], &max = call.operands[1], &sum = call.operands[2];
  const Tensor &weighted = call.operands[3], &target = call.operands[4];
  const Tensor &coefficients = operandOf(call, 5), &accumulator = operandOf(call, 6), &w = operandOf(call, 7);
  const Tensor &logProbabilities = call.results[0], &entropy = call.results[1], &dx = resultOf(call, 2);
  parallelRows(
      context, labels.rows, dx.present() ? dx.columns : 1, [](float *) {},
      [&](int64_t row, float *weights) HWY_ATTR {
        const int32_t label = labelOf(labels, row);
        if (label < 0) {
          *floatRowOf(logProbabilities, row) = *floatRowOf(entropy, row) = 0;
          if (dx.present())
            std::fill_n(floatRowOf(dx, row), dx.columns, 0.0f);
          return;
        }
        const double others = *floatRowOf(sum, row);
        const double gap = static_cast<double>(*floatRowOf(max, row)) - *floatRowOf(target, row);
        const double own = std::exp(-gap), z = others + own;
        *floatRowOf(logProbabilities, row) = static_cast<float>(-(std::log(z) + gap));
        *floatRowOf(entropy, row) = static_cast<float>(std::log(z) - (*floatRowOf(weighted, row) - own * gap) / z);
        if (!dx.present())
          return;
        dequantizeRow(w, label, weights);
        const double coefficient = static_cast<double>(context.logitScale) * *floatRowOf(coefficients, row);
        finishRow(floatRowOf(accumulator, row), weights, static_cast<float>(coefficient / z),
                  static_cast<float>(others), floatRowOf(dx, row), dx.columns);
      });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(LogProbabilityTile);
HWY_EXPORT(LogProbabilityLogitsGradient);
HWY_EXPORT(LogProbabilityFromTiles);

constexpr KernelTable lossKernels = {{"log_probability_tile", MEBP_BEST(LogProbabilityTile)},
                                     {"log_probability_logits_gradient", MEBP_BEST(LogProbabilityLogitsGradient)},
                                     {"log_probability_from_tiles", MEBP_BEST(LogProbabilityFromTiles)}};

} // namespace mebp::cpu::vector
#endif
