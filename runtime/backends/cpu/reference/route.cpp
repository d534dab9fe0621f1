// SPDX-License-Identifier: Apache-2.0
//
// Which experts a token goes to, and how evenly all of them are used. logits [N,E]; ids, weights [N,J]; counts, scores
// [1,E]. One thread: there are few logits beside what the experts multiply.
#include "runtime/backends/cpu/kernel/experts.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mebp::cpu::reference {

namespace {

// out[i] = softmax over i < count of logits[at(i)].
template <typename At> void softmax(const float *logits, int64_t count, double *out, const At &at) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max<double>(largest, logits[at(i)]);
  for (int64_t i = 0; i < count; ++i)
    sum += out[i] = std::exp(logits[at(i)] - largest);
  for (int64_t i = 0; i < count; ++i)
    out[i] /= sum;
}

void computeScores(const float *logits, int64_t count, Score score, double *out) {
  if (score == Score::Softmax)
    return softmax(logits, count, out, [](int64_t i) { return i; });
  for (int64_t i = 0; i < count; ++i)
    out[i] = score == Score::Sigmoid ? 1 / (1 + std::exp(-static_cast<double>(logits[i]))) : logits[i];
}

// The largest that is not taken, the first of equals; where none compares, the first that is left. It is taken then.
int64_t takeLargest(const double *values, int64_t first, int64_t count, bool *taken) {
  int64_t best = -1;
  for (int64_t i = first; i < first + count; ++i)
    if (!taken[i] && (best < 0 || values[i] > values[best]))
      best = i;
  taken[best] = true;
  return best;
}

// Of a row, in the workspace.
struct Choice {
  double *scores, *choices, *groupScores;
  bool *taken, *takenGroups;

  Choice(const Context &context, int64_t experts)
      : scores(reinterpret_cast<double *>(context.workspace)), choices(scores + experts),
        groupScores(choices + experts), taken(reinterpret_cast<bool *>(groupScores + experts)),
        takenGroups(taken + experts) {}

  // Leaves the experts of the best groups alone to be taken.
  void chooseGroups(int64_t experts, int64_t groups, int64_t kept, int64_t bestOfGroup) const {
    const int64_t size = experts / groups;
    for (int64_t group = 0; group < groups; ++group) {
      groupScores[group] = 0;
      for (int64_t i = 0; i < bestOfGroup; ++i)
        groupScores[group] += choices[takeLargest(choices, group * size, size, taken)];
    }
    std::fill_n(taken, experts, true);
    std::fill_n(takenGroups, groups, false);
    for (int64_t i = 0; i < kept; ++i)
      std::fill_n(taken + takeLargest(groupScores, 0, groups, takenGroups) * size, size, false);
  }
};

// The softmaxes of a row's slots: each is of the logits that no slot before it has taken and that are near its own.
template <typename At> struct Near {
  const float *logits;
  const At &at; // the expert of a slot
  double threshold;

  // Of expert e, in proportion.
  double share(int64_t slot, int64_t e) const {
    for (int64_t before = 0; before < slot; ++before)
      if (at(before) == e)
        return 0;
    const double own = logits[at(slot)], other = logits[e];
    // Written so that a NaN is near.
    return own - other > threshold * std::max(std::fabs(other), own) ? 0 : std::exp(other - own);
  }
  double ofAll(int64_t slot, int64_t experts) const {
    double sum = 0;
    for (int64_t e = 0; e < experts; ++e)
      sum += share(slot, e);
    return sum;
  }
  void weigh(int64_t slots, int64_t experts, double *p) const {
    for (int64_t slot = 0; slot < slots; ++slot)
      p[slot] = share(slot, at(slot)) / ofAll(slot, experts);
  }
};

// Into weights: p, scaled and normalised.
void weigh(const Attributes &attributes, int64_t count, double *p) {
  double sum = attributes.epsilon;
  for (int64_t i = 0; i < count; ++i)
    sum += p[i];
  const double factor = attributes.scale / (attributes.normalized ? sum : 1);
  for (int64_t i = 0; i < count; ++i)
    p[i] *= factor;
}

} // namespace

static void route(const Call &call, const Context &context) {
  const Tensor &logits = call.operands[0], &bias = operandOf(call, 1);
  const Tensor &weights = call.results[0], &ids = call.results[1];
  const Attributes &attributes = call.attributes;
  const int64_t experts = logits.columns, chosen = ids.columns, groups = attributes.groups;
  const Choice choice(context, experts);
  for (int64_t n = 0; n < logits.rows; ++n) {
    const float *row = floatRowOf(logits, n);
    float *numbers = floatRowOf(ids, n);
    computeScores(row, experts, attributes.score, choice.scores);
    for (int64_t e = 0; e < experts; ++e) {
      float shift = 0;
      if (bias.present())
        dequantize(bias, 0, e, 1, &shift);
      choice.choices[e] = choice.scores[e] + shift;
      choice.taken[e] = false;
    }
    if (groups > 1)
      choice.chooseGroups(experts, groups, attributes.topGroups ? attributes.topGroups : groups,
                          attributes.bestOfGroup);
    double *p = choice.groupScores;
    for (int64_t j = 0; j < chosen; ++j) {
      const int64_t best = takeLargest(choice.choices, 0, experts, choice.taken);
      numbers[j] = static_cast<float>(best);
      p[j] = choice.scores[best];
    }
    auto at = [&](int64_t j) { return static_cast<int64_t>(numbers[j]); };
    if (attributes.score == Score::SoftmaxOfChosen)
      softmax(row, chosen, p, at);
    if (attributes.score == Score::SoftmaxOfNear)
      Near<decltype(at)>{row, at, attributes.threshold}.weigh(chosen, experts, p);
    weigh(attributes, chosen, p);
    for (int64_t j = 0; j < chosen; ++j)
      floatRowOf(weights, n)[j] = static_cast<float>(p[j]);
  }
}

static void routeGradient(const Call &call, const Context &context) {
  const Tensor &logits = call.operands[0], &ids = call.operands[1], &dweights = call.operands[2];
  const Tensor &dlogits = call.results[0];
  const Attributes &attributes = call.attributes;
  const int64_t experts = logits.columns, chosen = ids.columns;
  const Choice choice(context, experts);
  double *scores = choice.scores, *p = choice.choices, *g = choice.groupScores;
  for (int64_t n = 0; n < logits.rows; ++n) {
    const float *row = floatRowOf(logits, n), *numbers = floatRowOf(ids, n);
    auto at = [&](int64_t j) {
      const auto last = static_cast<float>(experts - 1);
      return static_cast<int64_t>(numbers[j] >= 0 ? std::min(numbers[j], last) : 0.0f);
    };
    const bool ofChosen = attributes.score == Score::SoftmaxOfChosen, ofNear = attributes.score == Score::SoftmaxOfNear;
    const Near<decltype(at)> near{row, at, attributes.threshold};
    if (ofChosen)
      softmax(row, chosen, p, at);
    else if (ofNear)
      near.weigh(chosen, experts, p);
    else
      computeScores(row, experts, attributes.score, scores);
    double sum = attributes.epsilon, product = 0;
    for (int64_t j = 0; j < chosen; ++j) {
      p[j] = ofChosen || ofNear ? p[j] : scores[at(j)];
      g[j] = static_cast<double>(attributes.scale) * floatRowOf(dweights, n)[j];
      sum += p[j];
    }
    for (int64_t j = 0; j < chosen; ++j)
      product += g[j] * p[j];
    for (int64_t j = 0; j < chosen && attributes.normalized; ++j)
      g[j] = (g[j] - product / sum) / sum;
    product = 0;
    for (int64_t j = 0; j < chosen; ++j)
      product += g[j] * p[j];
    float *out = floatRowOf(dlogits, n);
    if (ofNear) {
      std::fill_n(scores, experts, 0.0);
      for (int64_t j = 0; j < chosen; ++j) {
        const double all = near.ofAll(j, experts);
        scores[at(j)] += g[j] * p[j];
        for (int64_t e = 0; e < experts; ++e)
          scores[e] -= g[j] * p[j] * near.share(j, e) / all;
      }
      for (int64_t e = 0; e < experts; ++e)
        out[e] = static_cast<float>(scores[e]);
      continue;
    }
    for (int64_t e = 0; e < experts; ++e)
      out[e] = attributes.score == Score::Softmax ? static_cast<float>(-product * scores[e]) : 0.0f;
    for (int64_t j = 0; j < chosen; ++j) {
      const double rest = attributes.score == Score::Sigmoid ? g[j] * (1 - p[j]) : g[j] - product;
      out[at(j)] = static_cast<float>(p[j] * rest);
    }
  }
}

static void expertLoad(const Call &call, const Context &context) {
  const Tensor &logits = call.operands[0], &ids = call.operands[1], &counted = call.operands[2];
  const int64_t experts = logits.columns;
  const Slots slots(ids, experts);
  auto *scores = reinterpret_cast<double *>(context.workspace), *sums = scores + experts;
  float *sumsOf[] = {floatRowOf(call.results[0], 0), floatRowOf(call.results[1], 0)};
  for (size_t i : {0, 1})
    if (!operandOf(call, 3 + i).present())
      std::fill_n(sumsOf[i], experts, 0.0f);
  std::copy_n(sumsOf[0], experts, sums);
  for (int64_t n = 0; n < logits.rows; ++n) {
    if (floatRowOf(counted, n)[0] == 0)
      continue;
    for (int64_t j = 0; j < slots.count(); ++j)
      if (int64_t expert = slots.expertAt(n, j); expert >= 0)
        ++sumsOf[1][expert];
    computeScores(floatRowOf(logits, n), experts, Score::Softmax, scores);
    for (int64_t e = 0; e < experts; ++e)
      sums[e] += scores[e];
  }
  for (int64_t e = 0; e < experts; ++e)
    sumsOf[0][e] = static_cast<float>(sums[e]);
}

static void expertLoadGradient(const Call &call, const Context &context) {
  const Tensor &logits = call.operands[0], &counted = call.operands[1];
  const float *dscores = floatRowOf(call.operands[2], 0);
  const int64_t experts = logits.columns;
  auto *scores = reinterpret_cast<double *>(context.workspace);
  for (int64_t n = 0; n < logits.rows; ++n) {
    float *out = floatRowOf(call.results[0], n);
    std::fill_n(out, experts, 0.0f);
    if (floatRowOf(counted, n)[0] == 0)
      continue;
    computeScores(floatRowOf(logits, n), experts, Score::Softmax, scores);
    double product = 0;
    for (int64_t e = 0; e < experts; ++e)
      product += dscores[e] * scores[e];
    for (int64_t e = 0; e < experts; ++e)
      out[e] = static_cast<float>(scores[e] * (dscores[e] - product));
  }
}

constexpr NamedKernel entries[] = {{"route", route},
                                   {"route_gradient", routeGradient},
                                   {"expert_load", expertLoad},
                                   {"expert_load_gradient", expertLoadGradient}};
constexpr KernelTable routeKernels = entries;

} // namespace mebp::cpu::reference
