// SPDX-License-Identifier: Apache-2.0
//
// q, dq [N,H*d], o, do [N,H*e] (maybe a chunk of the tokens), lse [N,H]; k, dk [S,K*d], v, dv [S,K*e], all tokens or a
// state. Scores are computed again wherever they are needed, so nothing of T x T is stored. starts, ends [N,1], sinks
// [1,H].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>
#include <cmath>

namespace mebp::cpu::reference {

static double dot(Row a, Row b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// What a product of a query and a key is to the softmax. `distance`: the key's position less the query's.
static double scoreOf(double product, const Attributes &attributes, int64_t head, int64_t distance) {
  double score = attributes.scale * product, cap = attributes.softcap;
  if (attributes.slopes)
    return score + static_cast<double>(attributes.slopes[head]) * static_cast<double>(distance);
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

static void attend(const Call &call, const Context &context, const Sight &sight) {
  const Tensor &q = call.operands[0], &k = call.operands[1], &v = call.operands[2];
  const Tensor &o = call.results[0], &lse = call.results[1], &sinks = sinksOf(call, sight);
  const Attributes &attributes = call.attributes;
  int64_t group = attributes.heads / attributes.kvHeads;
  int64_t dim = q.columns / attributes.heads, valueDim = v.columns / attributes.kvHeads;
  auto *sums = reinterpret_cast<double *>(context.workspace);
  for (int64_t n = 0; n < q.rows; ++n)
    for (int64_t head = 0; head < attributes.heads; ++head) {
      Place place = placeOf(q, n, context);
      auto keyAt = [&](int64_t j) { return rowOfKey(place.item, j, attributes.capacity, context); };
      int64_t column = head / group * dim, valueColumn = head / group * valueDim;
      const Row query = rowOf(q, n) + head * dim;
      const Sight::Keys keys = sight.keysOf(n, place.position);
      const double sink = sinks.present() ? sinkOf(sinks, head) : -INFINITY;
      auto score = [&](int64_t j) {
        return scoreOf(dot(query, rowOf(k, keyAt(j)) + column, dim), attributes, head, j - place.position);
      };
      double maximum = sink;
      for (int64_t j = keys.first; j < keys.end; ++j)
        maximum = std::max(maximum, score(j));
      std::fill_n(sums, valueDim, 0.0);
      double total = std::exp(sink - maximum);
      for (int64_t j = keys.first; j < keys.end; ++j) {
        double p = std::exp(score(j) - maximum);
        total += p;
        for (int64_t c = 0; c < valueDim; ++c)
          sums[c] += p * rowOf(v, keyAt(j))[valueColumn + c];
      }
      for (int64_t c = 0; c < valueDim; ++c)
        rowOf(o, n).set(head * valueDim + c, static_cast<float>(sums[c] / total));
      floatRowOf(lse, n)[head] = static_cast<float>(maximum + std::log(total));
    }
}

void attention(const Call &call, const Context &context) { attend(call, context, Sight(call, context, 3, true)); }

void bidirectionalAttention(const Call &call, const Context &context) {
  attend(call, context, Sight(call, context, 3, false));
}

static void append(const Call &call, const Context &context) {
  const Tensor &rows = call.operands[1], &state = call.results[0];
  for (int64_t n = 0; n < rows.rows; ++n) {
    Place place = placeOf(rows, n, context);
    int64_t row = rowOfKey(place.item, place.position, call.attributes.capacity, context);
    copyRow(rowOf(rows, n), rowOf(state, row), rows.columns);
  }
}

namespace {

// The operands of attention_gradient, and what one pair of a query row and a key row has in common.
struct Gradient {
  const Tensor &q, &k, &v, &o, &lse, &upstream;
  const Context &context;
  const Attributes &attributes;
  int64_t dim, valueDim, group;

  double score(int64_t n, int64_t head, int64_t token) const {
    const int64_t distance = token % context.sequence - placeOf(q, n, context).position;
    return scoreOf(dot(rowOf(q, n) + head * dim, rowOf(k, token) + head / group * dim, dim), attributes, head,
                   distance);
  }
  double probability(int64_t n, int64_t head, int64_t token) const {
    return std::exp(score(n, head, token) - floatRowOf(lse, n)[head]);
  }
  // dL/d(product of query and key).
  double scoreGradient(int64_t n, int64_t head, int64_t token, double p) const {
    const Row dout = rowOf(upstream, n) + head * valueDim;
    double mean = dot(dout, rowOf(o, n) + head * valueDim, valueDim);
    double bounded = attributes.softcap > 0 ? score(n, head, token) / attributes.softcap : 0;
    double slope = attributes.scale * (1 - bounded * bounded);
    return slope * p * (dot(dout, rowOf(v, token) + head / group * valueDim, valueDim) - mean);
  }
};

} // namespace

static void attendBack(const Call &call, const Context &context, const Sight &sight) {
  const Tensor &dkBefore = operandOf(call, 6), &dvBefore = operandOf(call, 7);
  const Tensor &dq = call.results[0], &dk = call.results[1], &dv = call.results[2];
  const Attributes &attributes = call.attributes;
  Gradient gradient{call.operands[0],
                    call.operands[1],
                    call.operands[2],
                    call.operands[3],
                    call.operands[4],
                    call.operands[5],
                    context,
                    attributes,
                    call.operands[0].columns / attributes.heads,
                    call.operands[2].columns / attributes.kvHeads,
                    attributes.heads / attributes.kvHeads};
  int64_t dim = gradient.dim, valueDim = gradient.valueDim, group = gradient.group;
  auto *keySums = reinterpret_cast<double *>(context.workspace), *valueSums = keySums + dim;

  for (int64_t n = 0; n < dq.rows; ++n)
    for (int64_t head = 0; head < attributes.heads; ++head) {
      Place place = placeOf(gradient.q, n, context);
      std::fill_n(keySums, dim, 0.0);
      const Sight::Keys keys = sight.keysOf(n, place.position);
      for (int64_t j = keys.first; j < keys.end; ++j) {
        int64_t token = place.item * context.sequence + j;
        double ds = gradient.scoreGradient(n, head, token, gradient.probability(n, head, token));
        for (int64_t c = 0; c < dim; ++c)
          keySums[c] += ds * rowOf(gradient.k, token)[head / group * dim + c];
      }
      for (int64_t c = 0; c < dim; ++c)
        rowOf(dq, n).set(head * dim + c, static_cast<float>(keySums[c]));
    }

  for (int64_t token = 0; token < dk.rows; ++token)
    for (int64_t kvHead = 0; kvHead < attributes.kvHeads; ++kvHead) {
      Place key = {token / context.sequence, token % context.sequence};
      std::fill_n(keySums, dim + valueDim, 0.0);
      for (int64_t n = 0; n < gradient.q.rows; ++n) {
        Place query = placeOf(gradient.q, n, context);
        const Sight::Keys keys = sight.keysOf(n, query.position);
        if (query.item != key.item || key.position < keys.first || key.position >= keys.end)
          continue;
        for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head) {
          double p = gradient.probability(n, head, token);
          double ds = gradient.scoreGradient(n, head, token, p);
          for (int64_t c = 0; c < dim; ++c)
            keySums[c] += ds * rowOf(gradient.q, n)[head * dim + c];
          for (int64_t c = 0; c < valueDim; ++c)
            valueSums[c] += p * rowOf(gradient.upstream, n)[head * valueDim + c];
        }
      }
      float *keyOut = floatRowOf(dk, token) + kvHead * dim, *valueOut = floatRowOf(dv, token) + kvHead * valueDim;
      for (int64_t c = 0; c < dim; ++c)
        keyOut[c] = static_cast<float>(keySums[c] + (dkBefore.present() ? keyOut[c] : 0.0f));
      for (int64_t c = 0; c < valueDim; ++c)
        valueOut[c] = static_cast<float>(valueSums[c] + (dvBefore.present() ? valueOut[c] : 0.0f));
    }
}

void attentionGradient(const Call &call, const Context &context) {
  attendBack(call, context, Sight(call, context, 8, true));
}

void bidirectionalAttentionGradient(const Call &call, const Context &context) {
  attendBack(call, context, Sight(call, context, 8, false));
}

constexpr NamedKernel entries[] = {{"attention", attention},
                                   {"bidirectional_attention", bidirectionalAttention},
                                   {"append", append},
                                   {"attention_gradient", attentionGradient},
                                   {"bidirectional_attention_gradient", bidirectionalAttentionGradient}};
constexpr KernelTable attentionKernels = entries;

} // namespace mebp::cpu::reference
