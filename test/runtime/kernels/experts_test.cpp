// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "format/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

using mebp::Score;
using namespace mebp::cpu;
using namespace mebp::cpu::test;

namespace {

struct Shape {
  int64_t rows, slots, experts, inputs, outputs;
};

// Below, at and above the tiles of 12 rows, 32 columns, 256 of depth; experts that no slot goes to.
constexpr Shape smallShapes[] = {
    {0, 2, 4, 40, 40}, {1, 1, 1, 1, 1}, {1, 2, 3, 67, 45}, {50, 3, 4, 8, 70}, {101, 2, 16, 8, 34}};
// They take ten times as long.
constexpr Shape shapesOfManyRows[] = {{3, 2, 9, 576, 40}, {50, 2, 3, 300, 8}, {30, 4, 5, 256, 20}, {14, 2, 2, 257, 65}};

enum class Choice { Distinct, AllOne, Damaged };

// For each token so many different experts; or one expert for all slots; or also numbers that are none.
Value ids(Shape shape, Choice choice) {
  Value value = Value::constant(shape.rows, shape.slots, static_cast<float>(shape.experts - 1));
  std::mt19937 generator(7);
  std::vector<int64_t> order(static_cast<size_t>(shape.experts));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t r = 0; r < shape.rows && choice != Choice::AllOne; ++r) {
    std::shuffle(order.begin(), order.end(), generator);
    for (int64_t j = 0; j < shape.slots; ++j)
      value.element(r, j) = static_cast<float>(order[static_cast<size_t>(j)]);
    if (choice == Choice::Damaged)
      value.element(r, 0) = r % 3 == 0 ? -1.0f : r % 3 == 1 ? 1e30f : static_cast<float>(shape.experts);
  }
  return value;
}

Attributes withAlpha(float alpha) {
  Attributes attributes;
  attributes.alpha = alpha;
  return attributes;
}

template <typename Body> void forEachShape(bool ofManyRows, const Body &body) {
  auto each = [&](const auto &shapes) {
    for (Shape shape : shapes)
      body(shape);
  };
  ofManyRows ? each(shapesOfManyRows) : each(smallShapes);
}

template <typename Body> void forEachCall(bool ofManyRows, const Body &body) {
  forEachShape(ofManyRows, [&](Shape shape) {
    for (Choice choice : {Choice::Distinct, Choice::AllOne, Choice::Damaged}) {
      SCOPED_TRACE(shape.rows * 1000 + shape.slots);
      body(shape, ids(shape, choice));
    }
  });
}

class Experts : public testing::TestWithParam<std::tuple<Storage, bool>> {
protected:
  static Storage storage() { return std::get<0>(GetParam()); }
  static bool ofManyRows() { return std::get<1>(GetParam()); }
};

class ExpertShapes : public testing::TestWithParam<bool> {};

} // namespace

TEST_P(Experts, Linear) {
  forEachCall(ofManyRows(), [](Shape shape, const Value &chosen) {
    Value w = Value::weight(shape.experts * shape.outputs, shape.inputs, storage(), 2);
    Value y = Value::constant(shape.rows, shape.slots * shape.outputs, 0);
    Value addend = Value::random(shape.rows, shape.slots * shape.outputs, 3);
    Value bias = Value::weight(1, shape.experts * shape.outputs, storage(), 4);
    for (int64_t copies : {int64_t{1}, shape.slots}) {
      Value x = Value::random(shape.rows, copies * shape.inputs, 1);
      expectAgreement({"expert_linear", {x, w, chosen}, {y}, withAlpha(-0.5f)});
      expectAgreement({"expert_linear", {x, w, chosen, addend}, {y}, {}, 1, {3}});
      expectAgreement({"expert_linear", {x, w, chosen, {}, bias}, {y}, withAlpha(2)});
      expectAgreement({"expert_linear", {x, w, chosen, addend, bias}, {y}, {}, 1, {3}});
      if (shape.rows <= 3)
        expectAgreement({"expert_linear", {x, w, chosen, {}, bias}, {y}, {}, 1, {}, 0, true});
    }
  });
}

TEST_P(Experts, InputGradients) {
  forEachCall(ofManyRows(), [](Shape shape, const Value &chosen) {
    Value w = Value::weight(shape.experts * shape.outputs, shape.inputs, storage(), 2);
    Value dy = Value::random(shape.rows, shape.slots * shape.outputs, 1);
    Value dx = Value::constant(shape.rows, shape.slots * shape.inputs, 0);
    Value addend = Value::random(shape.rows, shape.slots * shape.inputs, 3);
    expectAgreement({"expert_linear_input_gradient", {dy, w, chosen}, {dx}, withAlpha(0.25f)});
    expectAgreement({"expert_linear_input_gradient", {dy, w, chosen, addend}, {dx}, {}, 1, {3}});
    dx = Value::constant(shape.rows, shape.inputs, 0), addend = Value::random(shape.rows, shape.inputs, 3);
    expectAgreement({"expert_linear_shared_gradient", {dy, w, chosen}, {dx}, withAlpha(0.25f)});
    expectAgreement({"expert_linear_shared_gradient", {dy, w, chosen, addend}, {dx}});
    expectAgreement({"expert_linear_shared_gradient", {dy, w, chosen, addend}, {dx}, {}, 1, {3}});
  });
}

// A row of which the workspace has room for one, but for the list of slots that lies at its end.
TEST(ExpertsOfLongRows, LeaveTheListOfSlotsAlone) {
  constexpr int64_t experts = 3, slots = 2, inputs = 100'352, outputs = 1;
  const Value chosen = ids({1, slots, experts, inputs, outputs}, Choice::Distinct), x = Value::random(1, inputs, 1);
  for (Storage storage : {Storage::Int4, Storage::Int8}) {
    const Value w = Value::weight(experts * outputs, inputs, storage, 2);
    expectAgreement({"expert_linear", {x, w, chosen}, {Value::constant(1, slots * outputs, 0)}, {}, 1, {}, 0, true});
  }
}

// As PEFT lays out lora_B: column k E + e of [O,K·E] is the k-th of expert e.
TEST_P(Experts, InColumns) {
  forEachCall(ofManyRows(), [](Shape shape, const Value &chosen) {
    if (shape.inputs * shape.experts > 1000)
      return; // the naive kernel would take long
    Value w = Value::weight(shape.outputs, shape.inputs * shape.experts, storage(), 2);
    Value x = Value::random(shape.rows, shape.slots * shape.inputs, 1), dx = x;
    Value y = Value::random(shape.rows, shape.slots * shape.outputs, 3);
    expectAgreement({"expert_linear", {x, w, chosen}, {y}, withAlpha(-0.5f)});
    expectAgreement({"expert_linear", {x, w, chosen, y}, {y}, {}, 1, {3}});
    if (shape.rows <= 3)
      expectAgreement({"expert_linear", {x, w, chosen}, {y}, {}, 1, {}, 0, true});
    expectAgreement({"expert_linear_input_gradient", {y, w, chosen}, {dx}, withAlpha(0.25f)});
    expectAgreement({"expert_linear_input_gradient", {y, w, chosen, x}, {dx}, {}, 1, {3}});
  });
}

constexpr Storage storages[] = {Storage::F32, Storage::BF16, Storage::Int8, Storage::Int4};
INSTANTIATE_TEST_SUITE_P(Storages, Experts, testing::Combine(testing::ValuesIn(storages), testing::Values(false)));
INSTANTIATE_TEST_SUITE_P(ManyRows, Experts, testing::Combine(testing::ValuesIn(storages), testing::Values(true)));

TEST_P(ExpertShapes, WeightGradient) {
  forEachCall(GetParam(), [](Shape shape, const Value &chosen) {
    Value dy = Value::random(shape.rows, shape.slots * shape.outputs, 1);
    Value dw = Value::random(shape.experts * shape.outputs, shape.inputs, 3);
    for (int64_t copies : {int64_t{1}, shape.slots}) {
      Value x = Value::random(shape.rows, copies * shape.inputs, 2);
      expectAgreement({"expert_linear_weight_gradient", {dy, x, chosen}, {dw}, withAlpha(0.5f)});
      expectAgreement({"expert_linear_weight_gradient", {dy, x, chosen, dw}, {dw}, {}, 1, {3}});
    }
    Value x = Value::random(shape.rows, shape.slots * shape.inputs, 2);
    dw = Value::random(shape.outputs, shape.inputs * shape.experts, 3);
    expectAgreement({"expert_linear_weight_gradient", {dy, x, chosen}, {dw}, withAlpha(0.5f)});
    expectAgreement({"expert_linear_weight_gradient", {dy, x, chosen, dw}, {dw}, {}, 1, {3}});
  });
}

TEST(ExpertKernels, TheNaiveOneReadsTheColumnsOfEachExpert) {
  Value w = Value::constant(1, 6, 0), x = Value::constant(2, 2, 1), chosen = Value::constant(2, 1, 0), y = chosen;
  for (int64_t column = 0; column < 6; ++column)
    w.element(0, column) = static_cast<float>(1 << column); // of expert e the columns e and 3 + e
  x.element(1, 1) = 2, chosen.element(0, 0) = 2, chosen.element(1, 0) = 1;
  EXPECT_EQ(run({"expert_linear", {x, w, chosen}, {y}}, InstructionSet::Reference)[0].elements(),
            (std::vector<float>{4 + 32, 2 + 2 * 16}));
}

TEST(ExpertKernels, TheNaiveOneAddsTheBiasOfEachExpert) {
  Value w = Value::constant(6, 1, 0), x = Value::constant(3, 1, 1), chosen = Value::constant(3, 1, 2);
  Value bias = Value::constant(1, 6, 0), y = Value::constant(3, 2, 0);
  for (int64_t column = 0; column < 6; ++column)
    bias.element(0, column) = static_cast<float>(column + 1);
  chosen.element(1, 0) = 0, chosen.element(2, 0) = 3; // which is none
  EXPECT_EQ(run({"expert_linear", {x, w, chosen, {}, bias}, {y}}, InstructionSet::Reference)[0].elements(),
            (std::vector<float>{5, 6, 1, 2, 0, 0}));
}

TEST(ExpertKernels, AnExpertWithoutATokenHasNoGradient) {
  const Shape shape = {5, 2, 4, 6, 3};
  Value dy = Value::random(5, 6, 1), x = Value::random(5, 6, 2), dw = Value::constant(12, 6, 1);
  for (InstructionSet set : {instructionSet(), InstructionSet::Reference}) {
    Value found = run({"expert_linear_weight_gradient", {dy, x, ids(shape, Choice::AllOne)}, {dw}}, set)[0];
    for (int64_t row = 0; row < 9; ++row)
      for (int64_t column = 0; column < 6; ++column)
        EXPECT_EQ(found.element(row, column), 0.0f);
    EXPECT_NE(found.element(9, 0), 0.0f);
  }
}

TEST_P(ExpertShapes, Sums) {
  forEachShape(GetParam(), [](Shape shape) {
    Value y = Value::random(shape.rows, shape.slots * shape.outputs, 1);
    Value weights = Value::random(shape.rows, shape.slots, 2);
    Value out = Value::random(shape.rows, shape.outputs, 3);
    expectAgreement({"expert_sum", {y, weights}, {out}});
    expectAgreement({"expert_sum_gradient", {y, weights, out}, {y, weights}});
    expectAgreement({"expert_sum_gradient", {y, weights, out}, {y, weights}, {}, 1, {0, -1}});
  });
}

INSTANTIATE_TEST_SUITE_P(Small, ExpertShapes, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(ManyRows, ExpertShapes, testing::Values(true));

TEST(Route, ChoosesTheLargestAndWeighsThem) {
  Value logits = Value::constant(1, 4, 0), weights = Value::constant(1, 2, 0), chosen = weights;
  const float row[] = {1, 3, -1, 3};
  for (int64_t i = 0; i < 4; ++i)
    logits.element(0, i) = row[i];
  const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(-1);
  Attributes attributes;
  attributes.scale = 2;
  auto results = run({"route", {logits}, {weights, chosen}, attributes}, InstructionSet::Reference);
  EXPECT_EQ(results[1].elements(), (std::vector<float>{1, 3})); // of equals the first
  EXPECT_NEAR(results[0].element(0, 0), 2 * std::exp(3) / sum, 1e-6);
  attributes.normalized = true;
  results = run({"route", {logits}, {weights, chosen}, attributes}, InstructionSet::Reference);
  EXPECT_NEAR(results[0].element(0, 1), 1, 1e-6);
  attributes.score = Score::Sigmoid, attributes.normalized = false, attributes.scale = 1;
  Value bias = Value::constant(1, 4, 0);
  bias.element(0, 2) = 2;
  results = run({"route", {logits, bias}, {weights, chosen}, attributes}, InstructionSet::Reference);
  EXPECT_EQ(results[1].elements(), (std::vector<float>{2, 1}));
  EXPECT_NEAR(results[0].element(0, 0), 1 / (1 + std::exp(1)), 1e-6); // the bias chooses, and counts for nothing else
}

TEST(Route, WeighsAmongWhatIsNear) {
  Value logits = Value::constant(2, 4, 0), weights = Value::constant(2, 2, 0);
  const float rows[2][4] = {{1, 3, 2, 2.5f}, {-3, -1, -1.25f, -6}};
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t i = 0; i < 4; ++i)
      logits.element(row, i) = rows[row][i];
  Attributes attributes;
  attributes.score = Score::SoftmaxOfNear, attributes.threshold = 0.25f;
  auto results = run({"route", {logits}, {weights, weights}, attributes}, InstructionSet::Reference);
  EXPECT_EQ(results[1].elements(), (std::vector<float>{1, 3, 1, 2}));
  // 3 beside 2.5, which are 0.5 ≤ 0.25 · 3 apart, then 2.5 beside 2; -1 beside -1.25, then that alone.
  const double half = 1 / (1 + std::exp(-0.5)), quarter = 1 / (1 + std::exp(-0.25));
  const double expected[] = {half, half, quarter, 1};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(results[0].elements()[i], expected[i], 1e-6);
}

TEST(ExpertLoad, CountsTheRowsThatCount) {
  Value logits = Value::constant(3, 2, 0), ids = Value::constant(3, 1, 1), counted = Value::constant(3, 1, 1);
  logits.element(0, 0) = std::log(3.0f); // 3/4 and 1/4
  ids.element(0, 0) = 0;
  counted.element(2, 0) = 0;
  Value sums = Value::constant(1, 2, 0);
  auto results = run({"expert_load", {logits, ids, counted}, {sums, sums}}, InstructionSet::Reference);
  EXPECT_NEAR(results[0].element(0, 0), 1.25, 1e-6);
  EXPECT_NEAR(results[0].element(0, 1), 0.75, 1e-6);
  EXPECT_EQ(results[1].elements(), (std::vector<float>{1, 1}));
}

TEST(Route, ChoosesFromTheBestGroups) {
  Value logits = Value::constant(1, 6, 0), weights = Value::constant(1, 2, 0), chosen = weights;
  const float row[] = {5, -9, 2, 2, 3, -9};
  for (int64_t i = 0; i < 6; ++i)
    logits.element(0, i) = row[i];
  Attributes attributes;
  attributes.score = Score::Sigmoid, attributes.groups = 3, attributes.topGroups = 1;
  for (auto [best, expected] : {std::pair{1, std::vector<float>{0, 1}}, {2, {2, 3}}}) {
    attributes.bestOfGroup = best;
    EXPECT_EQ(run({"route", {logits}, {weights, chosen}, attributes}, InstructionSet::Reference)[1].elements(),
              expected);
  }
}

TEST(Route, ChoosesDifferentExpertsOfWhatIsNoNumber) {
  Value logits = Value::constant(2, 3, NAN), weights = Value::constant(2, 2, 0);
  for (const mebp::format::ScoreTraits &known : mebp::format::scores) {
    Attributes attributes;
    attributes.score = known.score;
    auto results = run({"route", {logits}, {weights, weights}, attributes}, InstructionSet::Reference);
    EXPECT_EQ(results[1].elements(), (std::vector<float>{0, 1, 0, 1}));
    run({"route_gradient", {logits, results[1], weights}, {logits}, attributes}, InstructionSet::Reference);
  }
}
