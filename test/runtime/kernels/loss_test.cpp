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
  float loss;
  std::vector<float> dx;
};

struct Head {
  Value x = Value::random(rows, dim, 1), w;
  std::vector<int32_t> labels;
  float scale = 1.0f / 30;

  explicit Head(Storage storage) : w(Value::weight(vocabulary, dim, storage, 2)) {
    for (int64_t r = 0; r < rows; ++r)
      labels.push_back(r % 6 == 4 ? -100 : static_cast<int32_t>(r * 31 % vocabulary));
  }

  // What the compiled program does, tile by tile.
  Outcome tiled(InstructionSet set, int threads, int64_t tile, bool inPlace) {
    Value max = Value::constant(rows, 1, -INFINITY), sum = Value::constant(rows, 1, 0), target = sum;
    Value accumulator = Value::constant(rows, dim, 0), ids = Value::integers(labels);
    std::vector<float> dense(dim);
    for (int64_t first = 0; first < vocabulary; first += tile) {
      int64_t count = std::min(tile, vocabulary - first);
      Value part = Value::constant(count, dim, 0);
      for (int64_t v = 0; v < count; ++v) {
        dequantizeRow(w.tensor(), first + v, dense.data());
        for (int64_t c = 0; c < dim; ++c)
          part.element(v, c) = dense[c];
      }
      Value logits = run({"linear", {x, part, {}, {}}, {Value::constant(rows, count, 0)}}, set, threads)[0];
      logits.shape.firstColumn = first;
      CallSpec step{"cross_entropy_tile",
                    {logits, ids, max, sum, target, accumulator},
                    {Value::constant(rows, count, 0), max, sum, target, accumulator}};
      step.shared = {inPlace ? 0 : -1, 2, 3, 4, 5};
      auto results = run(step, set, threads);
      max = results[1], sum = results[2], target = results[3];
      accumulator = run({"linear_input_gradient", {results[0], part, results[4]}, {results[4]}}, set, threads)[0];
    }
    Value scaleValue = Value::constant(1, 1, scale), loss = Value::constant(1, 1, 0.5f);
    auto results = run({"cross_entropy",
                        {ids, max, sum, target, scaleValue, loss, accumulator, w},
                        {loss, Value::constant(rows, dim, 0)},
                        {},
                        1,
                        {5, inPlace ? 6 : -1}},
                       set, threads);
    auto alone = run({"cross_entropy", {ids, max, sum, target, scaleValue, loss}, {loss}, {}, 1, {5}}, set, threads);
    EXPECT_EQ(alone[0].elements(), results[0].elements());
    return {results[0].elements()[0] - 0.5f, results[1].elements()};
  }

  Outcome exact() {
    double loss = 0;
    std::vector<float> dx, dense(dim);
    std::vector<std::vector<float>> weights;
    for (int64_t v = 0; v < vocabulary; ++v) {
      dequantizeRow(w.tensor(), v, dense.data());
      weights.push_back(dense);
    }
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> logits(vocabulary), gradient(dim);
      double z = 0;
      for (int64_t v = 0; v < vocabulary; ++v) {
        for (int64_t c = 0; c < dim; ++c)
          logits[v] += static_cast<double>(x.element(r, c)) * weights[v][c];
        z += std::exp(logits[v]);
      }
      if (labels[r] >= 0) {
        loss += std::log(z) - logits[labels[r]];
        for (int64_t v = 0; v < vocabulary; ++v)
          for (int64_t c = 0; c < dim; ++c)
            gradient[c] += (std::exp(logits[v]) / z - (v == labels[r])) * weights[v][c];
      }
      for (double value : gradient)
        dx.push_back(static_cast<float>(value * scale));
    }
    return {static_cast<float>(loss * scale), dx};
  }
};

} // namespace

TEST(CrossEntropy, TilesMakeTheWholeLoss) {
  for (Storage storage : {Storage::F32, Storage::Int8}) {
    Head head(storage);
    Outcome exact = head.exact();
    for (InstructionSet set : {InstructionSet::Reference, instructionSet()})
      for (int64_t tile : {113, 40, 7})
        for (bool inPlace : {false, true}) {
          Outcome outcome = head.tiled(set, 1, tile, inPlace);
          EXPECT_NEAR(outcome.loss, exact.loss, 1e-6 * exact.loss);
          EXPECT_LE(distance(outcome.dx, exact.dx), 2e-6);
          Outcome threaded = head.tiled(set, 2, tile, inPlace);
          EXPECT_EQ(threaded.loss, outcome.loss);
          EXPECT_EQ(threaded.dx, outcome.dx);
        }
  }
}

TEST(CrossEntropy, AConfidentRowKeepsItsSmallGradient) {
  // One logit is 30 above the others: 1 - p is 1e-13, far below f32's resolution around one.
  Value logits = Value::constant(1, 20, 0), max = Value::constant(1, 1, -INFINITY), zero = Value::constant(1, 1, 0);
  logits.element(0, 3) = 30;
  for (InstructionSet set : {InstructionSet::Reference, instructionSet()}) {
    auto results = run({"cross_entropy_tile",
                        {logits, Value::integers({3}), max, zero, zero},
                        {logits, max, zero, zero},
                        {},
                        1,
                        {0, 2, 3, 4}},
                       set);
    EXPECT_EQ(results[0].element(0, 3), 0);
    EXPECT_NEAR(results[2].element(0, 0), 19 * std::exp(-30.0), 1e-18);
    EXPECT_EQ(results[3].element(0, 0), 30);
  }
}
