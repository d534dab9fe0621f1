// SPDX-License-Identifier: Apache-2.0
//
// logits, p, dlogits [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, weighted, target, coefficients [N,1];
// accumulator, dx [N,D]; w [V,D]. Logits are capped where there is a softcap, and then multiplied with live.logitScale.
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

// As they are, where nothing scales them: no graph has a product by one.
static array scaledLogits(const Call &call) {
  const float scale = call.live.logitScale, cap = call.attributes.softcap;
  const array logits = cap > 0 ? cap * mx::tanh(call.numbers(0) / cap) : call.numbers(0);
  return scale == 1 ? logits : scale * logits;
}
// `terms` for each of these logits, times what the cap lets through of a change.
static array throughCap(const Call &call, const array &terms, const array &logits) {
  const float cap = call.attributes.softcap;
  return cap > 0 ? terms * (1 - mx::square(logits / (call.live.logitScale * cap))) : terms;
}
static array scaledCoefficients(const Call &call, size_t operand = 5) {
  const float scale = call.live.logitScale;
  return scale == 1 ? call.numbers(operand) : scale * call.numbers(operand);
}

static void logProbabilityTile(Call &call) {
  array logits = scaledLogits(call), before = call.numbers(2);
  const int columns = call.results[0].columns;
  array isLabel = mx::equal(call.value(1).data, range(call.firstColumn, columns)), zero = array(0.0f);
  array maximum = mx::maximum(before, mx::max(logits, -1, true)), correction = mx::exp(before - maximum);
  array below = logits - maximum, p = mx::where(isLabel, zero, mx::exp(below));
  array kept = correction * call.numbers(3);
  call.give(0, throughCap(call, p, logits));
  call.give(1, maximum);
  call.give(2, kept + sumOf(p));
  // What was summed before lies below another maximum; nothing of it is left where the first one is minus infinity.
  array moved = mx::where(correction > zero, correction * call.numbers(4) + (before - maximum) * kept, zero);
  call.give(3, moved + sumOf(p * below));
  array label = mx::sum(mx::where(isLabel, logits, zero), -1, true);
  call.give(4, mx::where(mx::any(isLabel, -1, true), label, call.numbers(5)));
  if (call.wants(5))
    call.give(5, correction * call.numbers(6));
}

static void logProbabilityLogitsGradient(Call &call) {
  array labels = call.value(1).data, max = call.numbers(2), others = call.numbers(3);
  const int columns = call.results[0].columns;
  array isLabel = mx::equal(labels, range(call.firstColumn, columns));
  array target = call.numbers(4), logits = mx::where(isLabel, target, scaledLogits(call)), gap = max - target;
  array below = logits - max, exponential = mx::exp(below);
  array own = mx::exp(-gap), z = others + own;
  array terms = scaledCoefficients(call) / z * mx::where(isLabel, others, -exponential);
  if (call.has(7)) {
    array mean = (call.numbers(6) - own * gap) / z;
    terms = terms - scaledCoefficients(call, 7) / z * exponential * (below - mean);
  }
  call.give(0, mx::where(labels >= 0, throughCap(call, terms, logits), array(0.0f)));
}

static void logProbabilityFromTiles(Call &call) {
  array labels = call.value(0).data, others = call.numbers(2), zero = array(0.0f);
  array counts = labels >= 0, gap = call.numbers(1) - call.numbers(4), own = mx::exp(-gap), z = others + own;
  call.give(0, mx::where(counts, -(mx::log(z) + gap), zero));
  call.give(1, mx::where(counts, mx::log(z) - (call.numbers(3) - own * gap) / z, zero));
  if (!call.wants(2))
    return;
  const array kept = throughCap(call, others, call.numbers(4));
  // Whatever row stands for a label that does not count, nothing of it is taken.
  array label = gatherRows(call.value(7), mx::flatten(mx::maximum(labels, array(0))));
  call.give(2, mx::where(counts, scaledCoefficients(call) * (kept * label - call.numbers(6)) / z, zero));
}

constexpr NamedKernel entries[] = {{"log_probability_tile", logProbabilityTile},
                                   {"log_probability_logits_gradient", logProbabilityLogitsGradient},
                                   {"log_probability_from_tiles", logProbabilityFromTiles}};
constexpr KernelTable lossKernels = entries;

} // namespace mebp::mlx
