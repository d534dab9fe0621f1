// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts. logits [N,E]; ids, weights [N,J]; x, dx [N,J·K] or [N,K], w [E·O,K] or [O,K·E], y [N,J·O]. Each
// slot is a row of its own here, which MLX multiplies with the matrix of its expert.
#include "runtime/backends/mlx/kernels.h"

#include <limits>

namespace mebp::mlx {

namespace mx = ::mlx::core;

static array scoresOf(const array &logits, Score score) {
  if (score == Score::Softmax)
    return mx::softmax(logits, -1, true);
  return score == Score::Sigmoid ? mx::sigmoid(logits) : logits;
}

// Of `choices` those of the best groups; the others are hidden.
static array chooseGroups(const array &choices, const Attributes &attributes) {
  const int rows = choices.shape(0), groups = attributes.groups, size = choices.shape(1) / groups;
  const int kept = attributes.topGroups ? attributes.topGroups : groups;
  const array grouped = mx::reshape(choices, {rows, groups, size});
  const array best = mx::slice(mx::sort(grouped, -1), {0, 0, size - attributes.bestOfGroup}, {rows, groups, size});
  const array order = mx::argsort(mx::argsort(-mx::sum(best, -1), -1), -1);
  const array chosen = mx::less(order, array(kept, order.dtype()));
  const array hidden = array(-std::numeric_limits<float>::infinity());
  return mx::reshape(mx::where(mx::expand_dims(chosen, -1), grouped, hidden), {rows, groups * size});
}

// Of each slot the softmax [N,E] of the logits that no slot before it has taken and that are near the slot's own.
// `take` gets it with where the slot's own expert is, 1 and else 0, and returns all that stays: the next slot waits for
// that, or MLX would hold what all slots need at once.
template <typename Take>
static void forEachSoftmaxOfNear(const array &logits, const array &ids, float threshold, const Take &take) {
  const array hidden = array(-std::numeric_limits<float>::infinity()), experts = mx::arange(logits.shape(1));
  array left = logits, isTaken = array(false);
  for (int j = 0; j < ids.shape(1); ++j) {
    const array own = columnsOf(ids, j, 1), isOwn = mx::equal(experts, own);
    const array largest = mx::take_along_axis(left, own, 1);
    const array isFar = mx::greater(largest - left, threshold * mx::maximum(mx::abs(left), largest));
    const array softmax = mx::softmax(mx::where(mx::logical_or(isFar, isTaken), hidden, left), -1, true);
    left = mx::depends({logits}, {take(j, softmax, mx::astype(isOwn, mx::float32))})[0];
    isTaken = mx::logical_or(isTaken, isOwn);
  }
}

static array weightsOfNear(const array &logits, const array &ids, float threshold) {
  std::vector<array> weights;
  forEachSoftmaxOfNear(logits, ids, threshold, [&](int j, const array &softmax, const array &) {
    weights.push_back(mx::take_along_axis(softmax, columnsOf(ids, j, 1), 1));
    return weights.back();
  });
  return mx::concatenate(weights, 1);
}

static void route(Call &call) {
  const Attributes &attributes = call.attributes;
  const array logits = call.numbers(0), scores = scoresOf(logits, attributes.score);
  array choices = call.has(1) ? scores + call.numbers(1) : scores;
  if (attributes.groups > 1)
    choices = chooseGroups(choices, attributes);
  const array ids = columnsOf(mx::argsort(-choices, -1), 0, call.results[1].columns);
  array p = mx::take_along_axis(scores, ids, 1);
  if (attributes.score == Score::SoftmaxOfChosen)
    p = mx::softmax(p, -1, true);
  if (attributes.score == Score::SoftmaxOfNear)
    p = weightsOfNear(logits, ids, attributes.threshold);
  if (attributes.normalized)
    p = p / (mx::sum(p, -1, true) + attributes.epsilon);
  call.give(0, attributes.scale * p);
  call.give(1, ids);
}

static void routeGradient(Call &call) {
  const Attributes &attributes = call.attributes;
  const array logits = call.numbers(0), ids = mx::astype(call.numbers(1), mx::int32);
  const array scores = scoresOf(logits, attributes.score);
  const bool ofChosen = attributes.score == Score::SoftmaxOfChosen, ofNear = attributes.score == Score::SoftmaxOfNear;
  array p = mx::take_along_axis(scores, ids, 1);
  if (ofChosen)
    p = mx::softmax(p, -1, true);
  if (ofNear)
    p = weightsOfNear(logits, ids, attributes.threshold);
  array g = attributes.scale * call.numbers(2);
  if (attributes.normalized) {
    const array z = mx::sum(p, -1, true) + attributes.epsilon;
    g = (g - mx::sum(g * p, -1, true) / z) / z;
  }
  if (ofNear) {
    const array each = g * p;
    array sum = mx::zeros_like(logits);
    forEachSoftmaxOfNear(logits, ids, attributes.threshold, [&](int j, const array &softmax, const array &own) {
      sum = sum + columnsOf(each, j, 1) * (own - softmax);
      return sum;
    });
    return call.give(0, sum);
  }
  const array product = mx::sum(g * p, -1, true);
  if (attributes.score == Score::Softmax) {
    const array ds = mx::put_along_axis(mx::zeros_like(logits), ids, g, 1);
    return call.give(0, scores * (ds - product));
  }
  const array chosen = ofChosen ? p * (g - product) : g * p * (1 - p);
  call.give(0, mx::put_along_axis(mx::zeros_like(logits), ids, chosen, 1));
}

static void expertLoad(Call &call) {
  const array logits = call.numbers(0), counted = call.numbers(2);
  const array ids = mx::expand_dims(call.numbers(1), -1), experts = mx::arange(logits.shape(1));
  const array uses = mx::sum(mx::astype(mx::equal(ids, experts), mx::float32), 1); // [N,E]
  const array counts = mx::sum(counted * uses, 0, true);
  const array scores = mx::sum(counted * mx::softmax(logits, -1, true), 0, true);
  call.give(0, call.has(3) ? scores + call.numbers(3) : scores);
  call.give(1, call.has(4) ? counts + call.numbers(4) : counts);
}

static void expertLoadGradient(Call &call) {
  const array scores = mx::softmax(call.numbers(0), -1, true), ds = call.numbers(2);
  call.give(0, call.numbers(1) * scores * (ds - mx::sum(ds * scores, -1, true)));
}

// [N·J, columns]: what a matrix has for each slot, or has once for all of a token.
static array slotsOf(const array &whole, int slots, int columns) {
  const int rows = whole.shape(0);
  const array each = whole.shape(1) == columns ? mx::broadcast_to(mx::expand_dims(whole, 1), {rows, slots, columns})
                                               : mx::reshape(whole, {rows, slots, columns});
  return mx::reshape(each, {rows * slots, columns});
}

// What each slot has of x: of a weight that has experts in columns, x has them apart.
static int inputsOf(const Value &w, int outputs, int columns, int slots) {
  return w.data.shape(0) == outputs ? columns / slots : w.columns;
}

// [E, O, K].
static array byExpert(const Value &w, int outputs, int inputs) {
  if (w.data.shape(0) != outputs)
    return mx::reshape(numbersOf(w), {w.data.shape(0) / outputs, outputs, w.columns});
  return mx::transpose(mx::reshape(numbersOf(w), {outputs, inputs, w.columns / inputs}), {2, 0, 1});
}

// x w[e]ᵀ, or x w[e], for each row of x and its expert e.
static array multiply(const array &x, const array &numbers, const array &ids, bool transposed) {
  const int experts = numbers.shape(0);
  const array right = transposed ? mx::swapaxes(numbers, 1, 2) : numbers;
  const array chosen = mx::reshape(mx::astype(ids, mx::uint32), {-1});
  return addedInParts(x.shape(1), [&](int first, int count, const std::vector<array> &before) {
    const array part = mx::slice(right, {0, first, 0}, {experts, first + count, right.shape(2)});
    const array rows = mx::expand_dims(behind(before, columnsOf(x, first, count)), 1);
    return mx::squeeze(mx::gather_mm(rows, part, std::nullopt, chosen), 1);
  });
}

// [N·J, O]: of a vector [1,E·O] each slot's expert's part.
static array biasOf(const Call &call, size_t operand, const array &ids, int outputs) {
  const array chosen = mx::reshape(mx::astype(ids, mx::uint32), {-1});
  return mx::take(mx::reshape(call.numbers(operand), {-1, outputs}), chosen, 0);
}

static void expertLinear(Call &call) {
  const array ids = call.numbers(2);
  const int slots = ids.shape(1), outputs = call.results[0].columns / slots;
  const Value &w = call.value(1);
  const int inputs = inputsOf(w, outputs, call.numbers(0).shape(1), slots);
  const array x = slotsOf(call.numbers(0), slots, inputs);
  array y = call.attributes.alpha * multiply(x, byExpert(w, outputs, inputs), ids, true);
  if (call.has(4))
    y = y + biasOf(call, 4, ids, outputs);
  const array flat = mx::reshape(y, {ids.shape(0), slots * outputs});
  call.give(0, call.has(3) ? flat + call.numbers(3) : flat);
}

// Of each slot, or their sum.
static array inputGradient(const Call &call, bool shared) {
  const array ids = call.numbers(2), dy = call.numbers(0);
  const int slots = ids.shape(1), outputs = dy.shape(1) / slots;
  const Value &w = call.value(1);
  const int inputs = shared ? w.columns : call.results[0].columns / slots;
  const array rows = slotsOf(dy, slots, outputs);
  const array each = call.attributes.alpha * multiply(rows, byExpert(w, outputs, inputs), ids, false);
  const array flat = shared ? mx::sum(mx::reshape(each, {ids.shape(0), slots, inputs}), 1)
                            : mx::reshape(each, {ids.shape(0), slots * inputs});
  return call.has(3) ? flat + call.numbers(3) : flat;
}
static void expertLinearInputGradient(Call &call) { call.give(0, inputGradient(call, false)); }
static void expertLinearSharedGradient(Call &call) { call.give(0, inputGradient(call, true)); }

// Expert by expert: the slots of others are zeros.
static void expertLinearWeightGradient(Call &call) {
  const array ids = call.numbers(2), dy = call.numbers(0);
  const int slots = ids.shape(1), outputs = dy.shape(1) / slots;
  const bool inColumns = call.results[0].rows == outputs;
  const int inputs = inColumns ? call.numbers(1).shape(1) / slots : call.results[0].columns;
  const int experts = call.results[0].rows / outputs * (call.results[0].columns / inputs);
  const array rows = slotsOf(dy, slots, outputs), x = slotsOf(call.numbers(1), slots, inputs);
  const array numbers = mx::reshape(ids, {-1, 1});
  std::vector<array> parts;
  for (int expert = 0; expert < experts; ++expert) {
    const array own = mx::where(mx::equal(numbers, array(static_cast<float>(expert))), rows, array(0.0f));
    const std::vector<array> before = parts.empty() ? parts : std::vector<array>{parts.back()};
    parts.push_back(product(mx::transpose(behind(before, own)), x));
  }
  const array dw =
      inColumns ? mx::reshape(mx::stack(parts, -1), {outputs, inputs * experts}) : mx::concatenate(parts, 0);
  const array sum = call.attributes.alpha * dw;
  call.give(0, call.has(3) ? sum + call.numbers(3) : sum);
}

// y [N,J,D] and weights [N,J,1].
static void expertSum(Call &call) {
  const array weights = mx::expand_dims(call.numbers(1), -1);
  const array y = mx::reshape(call.numbers(0), {weights.shape(0), weights.shape(1), call.results[0].columns});
  call.give(0, mx::sum(weights * y, 1));
}

static void expertSumGradient(Call &call) {
  const array weights = mx::expand_dims(call.numbers(1), -1), dout = mx::expand_dims(call.numbers(2), 1);
  const array y = call.numbers(0), each = mx::reshape(y, {weights.shape(0), weights.shape(1), dout.shape(2)});
  call.give(0, mx::reshape(weights * dout, y.shape()));
  call.give(1, mx::squeeze(sumOf(each * dout), -1));
}

constexpr NamedKernel entries[] = {{"route", route},
                                   {"route_gradient", routeGradient},
                                   {"expert_load", expertLoad},
                                   {"expert_load_gradient", expertLoadGradient},
                                   {"expert_linear", expertLinear},
                                   {"expert_linear_input_gradient", expertLinearInputGradient},
                                   {"expert_linear_shared_gradient", expertLinearSharedGradient},
                                   {"expert_linear_weight_gradient", expertLinearWeightGradient},
                                   {"expert_sum", expertSum},
                                   {"expert_sum_gradient", expertSumGradient}};
constexpr KernelTable expertKernels = entries;

} // namespace mebp::mlx
