// SPDX-License-Identifier: Apache-2.0
//
// The running log-sum-exp over vocabulary tiles, against the loss computed at once in double.
#include "support.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

constexpr int64_t rows = 37, dim = 50, vocabulary = 113;

struct Outcome {
  std::vector<float> logProbabilities, entropy, dx, dw;
  std::vector<float> dwWithEntropy; // where the entropy has coefficients, too
};

struct Head {
  Value x = Value::random(rows, dim, 1), w;
  std::vector<int32_t> labels;
  Value coefficients = Value::random(rows, 1, 3), entropyCoefficients = Value::random(rows, 1, 4);
  Attributes attributes;

  Head(Storage storage, float softcap) : w(Value::weight(vocabulary, dim, storage, 2)) {
    attributes.softcap = softcap;
    for (int64_t r = 0; r < rows; ++r)
      labels.push_back(r % 6 == 4 ? -100 : static_cast<int32_t>(r * 31 % vocabulary));
  }

  Value part(int64_t first, int64_t count) {
    Value rows = Value::constant(count, dim, 0);
    std::vector<float> dense(dim);
    for (int64_t v = 0; v < count; ++v) {
      dequantizeRow(w.tensor(), first + v, dense.data());
      for (int64_t c = 0; c < dim; ++c)
        rows.element(v, c) = dense[c];
    }
    return rows;
  }

  Value logits(const Value &tile, int64_t first, InstructionSet set, int threads) {
    Value made = run({"linear", {x, tile, {}, {}}, {Value::constant(rows, tile.shape.rows, 0)}}, set, threads)[0];
    made.shape.firstColumn = first;
    return made;
  }

  // What the compiled program does, tile by tile.
  Outcome tiled(InstructionSet set, int threads, int64_t tile, bool inPlace) {
    Value max = Value::constant(rows, 1, -INFINITY), sum = Value::constant(rows, 1, 0), weighted = sum, target = sum;
    Value accumulator = Value::constant(rows, dim, 0), ids = Value::integers(labels), column = sum;
    for (int64_t first = 0; first < vocabulary; first += tile) {
      int64_t count = std::min(tile, vocabulary - first);
      Value part = this->part(first, count);
      CallSpec step{"log_probability_tile",
                    {logits(part, first, set, threads), ids, max, sum, weighted, target, accumulator},
                    {Value::constant(rows, count, 0), max, sum, weighted, target, accumulator},
                    attributes};
      step.shared = {inPlace ? 0 : -1, 2, 3, 4, 5, 6};
      auto results = run(step, set, threads);
      max = results[1], sum = results[2], weighted = results[3], target = results[4];
      accumulator = run({"linear_input_gradient", {results[0], part, results[5]}, {results[5]}}, set, threads)[0];
    }
    auto results = run({"log_probability_from_tiles",
                        {ids, max, sum, weighted, target, coefficients, accumulator, w},
                        {column, column, Value::constant(rows, dim, 0)},
                        attributes,
                        1,
                        {-1, -1, inPlace ? 6 : -1}},
                       set, threads);
    auto alone = run({"log_probability_from_tiles", {ids, max, sum, weighted, target}, {column, column}}, set, threads);
    EXPECT_EQ(alone[0].elements(), results[0].elements());
    EXPECT_EQ(alone[1].elements(), results[1].elements());
    auto sweepAgain = [&](std::vector<Value> more) {
      std::vector<float> dw;
      for (int64_t first = 0; first < vocabulary; first += tile) {
        int64_t count = std::min(tile, vocabulary - first);
        CallSpec step{"log_probability_logits_gradient",
                      {logits(part(first, count), first, set, threads), ids, max, sum, target, coefficients},
                      {Value::constant(rows, count, 0)},
                      attributes};
        step.operands.insert(step.operands.end(), more.begin(), more.end());
        step.shared = {inPlace ? 0 : -1};
        Value gradient = run(step, set, threads)[0];
        gradient = run({"linear_weight_gradient", {gradient, x}, {Value::constant(count, dim, 0)}}, set, threads)[0];
        for (float element : gradient.elements())
          dw.push_back(element);
      }
      return dw;
    };
    return {results[0].elements(), results[1].elements(), results[2].elements(), sweepAgain({}),
            sweepAgain({weighted, entropyCoefficients})};
  }

  Outcome exact() {
    Outcome outcome;
    std::vector<float> dense(dim);
    std::vector<std::vector<float>> weights;
    for (int64_t v = 0; v < vocabulary; ++v) {
      dequantizeRow(w.tensor(), v, dense.data());
      weights.push_back(dense);
    }
    std::vector<double> dw(vocabulary * dim), ofEntropy(vocabulary * dim);
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> logits(vocabulary), slopes(vocabulary, 1.0), gradient(dim);
      double z = 0, entropy = 0, logProbability = 0;
      for (int64_t v = 0; v < vocabulary; ++v) {
        for (int64_t c = 0; c < dim; ++c)
          logits[v] += static_cast<double>(x.element(r, c)) * weights[v][c];
        if (const double cap = attributes.softcap; cap > 0) {
          const double bounded = std::tanh(logits[v] / cap);
          logits[v] = cap * bounded, slopes[v] = 1 - bounded * bounded;
        }
        z += std::exp(logits[v]);
      }
      if (labels[r] >= 0) {
        logProbability = logits[labels[r]] - std::log(z);
        for (int64_t v = 0; v < vocabulary; ++v) {
          const double p = std::exp(logits[v]) / z;
          entropy -= p * std::log(p);
          for (int64_t c = 0; c < dim; ++c) {
            gradient[c] += ((v == labels[r]) - p) * slopes[v] * weights[v][c];
            dw[v * dim + c] += coefficients.element(r, 0) * ((v == labels[r]) - p) * slopes[v] * x.element(r, c);
          }
        }
        for (int64_t v = 0; v < vocabulary; ++v) {
          const double logP = logits[v] - std::log(z), slope = -std::exp(logP) * (logP + entropy);
          for (int64_t c = 0; c < dim; ++c)
            ofEntropy[v * dim + c] += entropyCoefficients.element(r, 0) * slope * slopes[v] * x.element(r, c);
        }
      }
      outcome.logProbabilities.push_back(static_cast<float>(logProbability));
      outcome.entropy.push_back(static_cast<float>(entropy));
      for (double value : gradient)
        outcome.dx.push_back(static_cast<float>(value * coefficients.element(r, 0)));
    }
    outcome.dw.assign(dw.begin(), dw.end());
    for (size_t i = 0; i < dw.size(); ++i)
      outcome.dwWithEntropy.push_back(static_cast<float>(dw[i] + ofEntropy[i]));
    return outcome;
  }
};

} // namespace

TEST(LogProbability, TilesMakeTheWhole) {
  for (auto [storage, softcap] : {std::pair{Storage::F32, 0.0f}, {Storage::Int8, 0.0f}, {Storage::F32, 5.0f}}) {
    Head head(storage, softcap);
    Outcome exact = head.exact();
    for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
      for (int64_t tile : {113, 40, 7})
        for (bool inPlace : {false, true}) {
          Outcome outcome = head.tiled(set, 1, tile, inPlace);
          EXPECT_LE(distance(outcome.logProbabilities, exact.logProbabilities), 1e-6);
          EXPECT_LE(distance(outcome.entropy, exact.entropy), 1e-6);
          EXPECT_LE(distance(outcome.dw, exact.dw), 2e-6);
          EXPECT_LE(distance(outcome.dwWithEntropy, exact.dwWithEntropy), 2e-6);
          EXPECT_LE(distance(outcome.dx, exact.dx), 2e-6);
          Outcome threaded = head.tiled(set, 2, tile, inPlace);
          EXPECT_EQ(threaded.logProbabilities, outcome.logProbabilities);
          EXPECT_EQ(threaded.entropy, outcome.entropy);
          EXPECT_EQ(threaded.dx, outcome.dx);
        }
  }
}

TEST(LogProbability, AConfidentRowKeepsItsSmallGradient) {
  // One logit is 30 above the others: 1 - p is 1e-13, far below f32's resolution around one.
  Value logits = Value::constant(1, 20, 0), max = Value::constant(1, 1, -INFINITY), zero = Value::constant(1, 1, 0);
  logits.element(0, 3) = 30;
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
    auto results = run({"log_probability_tile",
                        {logits, Value::integers({3}), max, zero, zero, zero},
                        {logits, max, zero, zero, zero},
                        {},
                        1,
                        {0, 2, 3, 4, 5}},
                       set);
    EXPECT_EQ(results[0].element(0, 3), 0);
    EXPECT_NEAR(results[2].element(0, 0), 19 * std::exp(-30.0), 1e-18);
    EXPECT_NEAR(results[3].element(0, 0), -30 * 19 * std::exp(-30.0), 1e-16);
    EXPECT_EQ(results[4].element(0, 0), 30);
  }
}

// In bf16, p is what it is in f32, rounded, and nothing else changes: sums are of what is not rounded.
TEST(LogProbability, ANarrowTileRoundsItsProbabilitiesAlone) {
  for (float softcap : {0.0f, 5.0f})
    for (int64_t columns : {7, 64, 512, 1037})
      for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
        const Value logits = Value::random(rows, columns, 1, 3), max = Value::constant(rows, 1, 1);
        const Value sum = Value::constant(rows, 1, 2), weighted = Value::constant(rows, 1, -1), target = sum;
        const Value accumulator = Value::random(rows, dim, 2), p = Value::constant(rows, columns, 0);
        std::vector<int32_t> labels;
        for (int64_t r = 0; r < rows; ++r)
          labels.push_back(static_cast<int32_t>(r * 31 % (2 * columns)));
        Attributes attributes;
        attributes.softcap = softcap;
        auto runInto = [&](const Value &tile, int threads) {
          return run({"log_probability_tile",
                      {logits, Value::integers(labels), max, sum, weighted, target, accumulator},
                      {tile, max, sum, weighted, target, accumulator},
                      attributes,
                      1,
                      {-1, 2, 3, 4, 5, 6}},
                     set, threads);
        };
        const std::vector<Value> whole = runInto(p, 1), narrow = runInto(p.stored(Storage::BF16), 1);
        EXPECT_EQ(narrow[0].elements(), whole[0].stored(Storage::BF16).elements());
        for (size_t i = 1; i < whole.size(); ++i)
          EXPECT_EQ(narrow[i].elements(), whole[i].elements()) << "result " << i << " of " << columns << " columns";
        EXPECT_EQ(runInto(p.stored(Storage::BF16), 3)[0].elements(), narrow[0].elements());
      }
}
