// SPDX-License-Identifier: Apache-2.0
//
// logits, p, dlogits [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, weighted, target, coefficients [N,1];
// accumulator, dx [N,D]; w [V,D]. Logits are capped where there is a softcap, and then multiplied with
// context.logitScale.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/loss.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/activation-inl.h"

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

// Logits with a softcap: scale cap tanh(product / cap).
class CappedLogits {
public:
  CappedLogits(const Call &call, const Context &context) : scale(context.logitScale), cap(call.attributes.softcap) {}
  explicit operator bool() const { return cap > 0; }

  HWY_INLINE FloatVector at(FloatVector product) const {
    const FloatTag d;
    return hn::Mul(hn::Set(d, scale * cap), tangent(hn::Mul(hn::Set(d, 1 / cap), product)).value);
  }
  float at(float product) const { return hn::GetLane(at(hn::Set(FloatTag(), product))); }
  // What the cap lets through of a change, where it has given this logit.
  HWY_INLINE FloatVector slopeAt(FloatVector logit) const {
    const FloatTag d;
    const FloatVector bounded = hn::Mul(hn::Set(d, 1 / (scale * cap)), logit);
    return hn::NegMulAdd(bounded, bounded, hn::Set(d, 1.0f));
  }
  float slopeAt(float logit) const { return hn::GetLane(slopeAt(hn::Set(FloatTag(), logit))); }

  struct Sums {
    float total = 0, moment = 0;
  };
  // out = p of a row, 0 at the label, which may be in another tile.
  Sums spread(const float *in, Row out, int64_t columns, int64_t label, float maximum) const {
    const FloatTag d;
    constexpr int64_t block = 64;
    HWY_ALIGN float logits[block], exponentials[block];
    Sums sums;
    for (int64_t begin = 0; begin < columns; begin += block) {
      const int64_t count = std::min(block, columns - begin);
      auto below = [&](int64_t i) HWY_ATTR { return hn::Sub(hn::Load(d, logits + i), hn::Set(d, maximum)); };
      for (int64_t i = 0; i < count; i += lanes) {
        hn::Store(at(loadSome(in + begin + i, count - i)), d, logits + i);
        hn::Store(exponentialOf(below(i)), d, exponentials + i);
      }
      if (label >= begin && label < begin + count)
        exponentials[label - begin] = 0;
      sums.total += sumRow(count, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(exponentials + i, n); });
      sums.moment +=
          sumRow(count, [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(loadSome(exponentials + i, n), below(i)); });
      mapRow(out + begin, count, [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(loadSome(exponentials + i, n), slopeAt(hn::Load(d, logits + i)));
      });
    }
    return sums;
  }

private:
  float scale, cap;
};

// Likewise without a cap. What is summed is not rounded: where out is BF16, a piece is computed beside it.
static CappedLogits::Sums spread(const float *in, Row out, int64_t columns, int64_t label, float maximum,
                                 float logitScale, float target) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, logitScale);
  constexpr int64_t piece = 512;
  HWY_ALIGN float beside[piece];
  CappedLogits::Sums sums;
  for (int64_t begin = 0; begin < columns; begin += piece) {
    const int64_t count = std::min(piece, columns - begin);
    float *exponentials = out.isBf16() ? beside : out.floats() + begin;
    sums.moment += sumRow(count, [&](int64_t i, int64_t n) HWY_ATTR {
      const FloatVector below = hn::MulSub(scale, loadSome(in + begin + i, n), hn::Set(d, maximum));
      const FloatVector exponential = exponentialOf(below);
      storeSome(exponential, exponentials + i, n);
      const FloatVector product = hn::Mul(exponential, below);
      return n >= lanes ? product : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), product);
    });
    if (label >= begin && label < begin + count) {
      sums.moment -= exponentials[label - begin] * (target - maximum);
      exponentials[label - begin] = 0;
    }
    sums.total += sumRow(count, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(exponentials + i, n); });
    if (out.isBf16())
      mapRow(out.halves() + begin, count,
             [&](int64_t i, int64_t n) HWY_ATTR { return roundToBf16(loadSome(exponentials + i, n)); });
  }
  return sums;
}

void LogProbabilityTile(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &p = call.results[0];
  const Tensor &max = call.results[1], &sum = call.results[2], &weighted = call.results[3], &target = call.results[4];
  const Tensor &accumulator = resultOf(call, 5);
  const CappedLogits capped(call, context);
  parallelRows(context, logits.rows, logits.columns, [&](int64_t row) HWY_ATTR {
    const float *in = floatRowOf(logits, row);
    const Row out = rowOf(p, row);
    int64_t label = labelOf(labels, row) - logits.firstColumn, columns = logits.columns;
    bool hit = label >= 0 && label < columns;
    auto logitOf = [&](float product) HWY_ATTR { return capped ? capped.at(product) : context.logitScale * product; };
    float before = *floatRowOf(max, row), maximum = std::max(before, logitOf(maximumOf(in, columns)));
    auto correction = static_cast<float>(std::exp(static_cast<double>(before) - maximum));
    if (hit)
      *floatRowOf(target, row) = logitOf(in[label]);
    CappedLogits::Sums sums =
        capped ? capped.spread(in, out, columns, label, maximum)
               : spread(in, out, columns, label, maximum, context.logitScale, *floatRowOf(target, row));
    float *scaled = accumulator.present() && correction != 1.0f ? floatRowOf(accumulator, row) : nullptr;
    if (scaled)
      mapRow(scaled, accumulator.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(hn::Set(d, correction), loadSome(scaled + i, n)); });
    const float kept = correction * *floatRowOf(sum, row);
    *floatRowOf(max, row) = maximum;
    *floatRowOf(sum, row) = kept + sums.total;
    // What was summed before lies below another maximum; nothing of it is left where the first one is minus infinity.
    *floatRowOf(weighted, row) =
        sums.moment + (correction > 0 ? correction * *floatRowOf(weighted, row) + (before - maximum) * kept : 0);
  });
}

void LogProbabilityLogitsGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &max = call.operands[2], &sum = call.operands[3];
  const Tensor &target = call.operands[4], &coefficients = call.operands[5], &gradient = call.results[0];
  const Tensor &weighted = operandOf(call, 6), &entropyCoefficients = operandOf(call, 7);
  const FloatVector scale = hn::Set(d, context.logitScale);
  const CappedLogits capped(call, context);
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
    const bool hasEntropy = entropyCoefficients.present();
    const double ofEntropy = hasEntropy ? logitScale * *floatRowOf(entropyCoefficients, row) / z : 0;
    const double mean = hasEntropy ? (*floatRowOf(weighted, row) - own * gap) / z : 0;
    const FloatVector slope = hn::Set(d, static_cast<float>(ofEntropy)), middle = hn::Set(d, static_cast<float>(mean));
    mapRow(out, logits.columns, [&](int64_t i, int64_t n) HWY_ATTR {
      const FloatVector product = loadSome(in + i, n), logit = capped ? capped.at(product) : product;
      const FloatVector below = capped ? hn::Sub(logit, shift) : hn::MulSub(scale, product, shift);
      const FloatVector factors = hasEntropy ? hn::NegMulAdd(slope, hn::Sub(below, middle), negative) : negative;
      const FloatVector gradients = hn::Mul(factors, exponentialOf(below));
      return capped ? hn::Mul(gradients, capped.slopeAt(logit)) : gradients;
    });
    if (label >= 0 && label < logits.columns) // whose logit is the target
      out[label] = static_cast<float>((factor * others + ofEntropy * own * (gap + mean)) *
                                      (capped ? capped.slopeAt(*floatRowOf(target, row)) : 1.0f));
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
  const CappedLogits capped(call, context);
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
        const float slope = capped ? capped.slopeAt(*floatRowOf(target, row)) : 1.0f;
        finishRow(floatRowOf(accumulator, row), weights, static_cast<float>(coefficient / z),
                  static_cast<float>(others) * slope, floatRowOf(dx, row), dx.columns);
      });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(LogProbabilityTile);
HWY_EXPORT(LogProbabilityLogitsGradient);
HWY_EXPORT(LogProbabilityFromTiles);

constexpr NamedKernel entries[] = {{"log_probability_tile", MEBP_BEST(LogProbabilityTile)},
                                   {"log_probability_logits_gradient", MEBP_BEST(LogProbabilityLogitsGradient)},
                                   {"log_probability_from_tiles", MEBP_BEST(LogProbabilityFromTiles)}};
constexpr KernelTable lossKernels = entries;

} // namespace mebp::cpu::vector
#endif
