// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx [N,F]; w, b [1,G]. Each group of G columns is normalised by itself.
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

static array meanOf(const array &x) { return sumOf(x) / static_cast<float>(x.shape(-1)); }

static array inGroups(const array &x, int columns) { return mx::reshape(x, {x.shape(0), -1, columns}); }

static array rootMeanSquare(const array &x, float epsilon) { return mx::sqrt(meanOf(mx::square(x)) + epsilon); }

static void rmsNorm(Call &call) {
  array x = call.numbers(0), w = call.attributes.weightOffset + call.numbers(1);
  array groups = inGroups(x, call.value(1).columns);
  call.give(0, mx::reshape(groups / rootMeanSquare(groups, call.attributes.epsilon) * w, x.shape()));
}

static void rmsNormInputGradient(Call &call) {
  array x = call.numbers(0), w = call.attributes.weightOffset + call.numbers(1);
  int columns = call.value(1).columns;
  array groups = inGroups(x, columns), rms = rootMeanSquare(groups, call.attributes.epsilon);
  array normal = groups / rms, upstream = inGroups(call.numbers(2), columns) * w;
  call.give(0, mx::reshape((upstream - normal * meanOf(upstream * normal)) / rms, x.shape()));
}

namespace {

struct Normal {
  array values, deviation;
};

} // namespace

static Normal normalOf(const array &x, float epsilon) {
  array centred = x - meanOf(x), deviation = mx::sqrt(meanOf(mx::square(centred)) + epsilon);
  return {centred / deviation, deviation};
}

static void layerNorm(Call &call) {
  array x = call.numbers(0), w = call.attributes.weightOffset + call.numbers(1);
  array y = normalOf(inGroups(x, call.value(1).columns), call.attributes.epsilon).values * w;
  call.give(0, mx::reshape(call.has(2) ? y + call.numbers(2) : y, x.shape()));
}

static void layerNormInputGradient(Call &call) {
  array x = call.numbers(0), w = call.attributes.weightOffset + call.numbers(1);
  int columns = call.value(1).columns;
  Normal normal = normalOf(inGroups(x, columns), call.attributes.epsilon);
  array upstream = inGroups(call.numbers(2), columns) * w;
  array along = normal.values * meanOf(upstream * normal.values);
  call.give(0, mx::reshape((upstream - meanOf(upstream) - along) / normal.deviation, x.shape()));
}

// `terms`, in groups, summed over rows and groups, and added to what the operand `accumulator` has.
static void giveSum(Call &call, const array &terms, size_t accumulator) {
  array sum = mx::sum(mx::reshape(terms, {-1, call.results[0].columns}), 0, true);
  call.give(0, call.has(accumulator) ? sum + call.numbers(accumulator) : sum);
}

static void rmsNormWeightGradient(Call &call) {
  array groups = inGroups(call.numbers(0), call.results[0].columns);
  array normal = groups / rootMeanSquare(groups, call.attributes.epsilon);
  giveSum(call, inGroups(call.numbers(1), call.results[0].columns) * normal, 2);
}

static void layerNormWeightGradient(Call &call) {
  array groups = inGroups(call.numbers(0), call.results[0].columns);
  array normal = normalOf(groups, call.attributes.epsilon).values;
  giveSum(call, inGroups(call.numbers(1), call.results[0].columns) * normal, 2);
}

static void biasGradient(Call &call) { giveSum(call, call.numbers(0), 1); }

constexpr NamedKernel entries[] = {{"rms_norm", rmsNorm},
                                   {"rms_norm_input_gradient", rmsNormInputGradient},
                                   {"layer_norm", layerNorm},
                                   {"layer_norm_input_gradient", layerNormInputGradient},
                                   {"rms_norm_weight_gradient", rmsNormWeightGradient},
                                   {"layer_norm_weight_gradient", layerNormWeightGradient},
                                   {"bias_gradient", biasGradient}};
constexpr KernelTable normKernels = entries;

} // namespace mebp::mlx
