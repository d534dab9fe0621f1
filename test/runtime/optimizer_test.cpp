// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/core/decimal.h"
#include "runtime/optim/dynamic_map.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/session_options.h"
#include "support/own_options.h"

using namespace mebp;
using namespace mebp::test;

namespace {

TEST(Optimizer, TakesTheDecimalThatWasWritten) {
  EXPECT_EQ(decimalOf(0.999f), 0.999);
  EXPECT_EQ(decimalOf(2e-4f), 2e-4);
  EXPECT_EQ(decimalOf(1e-8f), 1e-8);
  EXPECT_EQ(decimalOf(0.0f), 0.0);
}

const format::OptimizerTraits &traitsOf(std::string_view name) { return *format::findOptimizer(name); }

// A tensor of its own, with what the optimizer keeps of it.
struct Tensor {
  Tensor(const char *name, std::vector<float> values, format::StateOptions state = {})
      : optimizer(*findOptimizer(traitsOf(name).number)), parameters(std::move(values)) {
    const format::OptimizerTraits &traits = traitsOf(name);
    format::TrainedShape shape = {1, parameters.size(), 0};
    kept.resize(format::keptBytes(traits, shape, state));
    format::placeKept(traits, shape, state, kept.data(), kept.data() + format::keptBytes(traits, shape, state, true),
                      tensor.kept);
    tensor.shape = shape;
    tensor.parameters = reinterpret_cast<unsigned char *>(parameters.data());
  }
  void step(const OptimizerOptions &options, uint64_t number, const std::vector<float> &gradient) {
    tensor.gradient = gradient.data();
    optimizer.update(options, number, tensor);
  }

  const Optimizer &optimizer;
  std::vector<float> parameters;
  std::vector<unsigned char> kept;
  TrainedTensor tensor;
};

OptimizerOptions withRate(const char *name, double rate) { return ownOptions(traitsOf(name), rate); }

TEST(Optimizer, EachOfTheTableHasItsUpdate) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    const Optimizer *optimizer = findOptimizer(traits.number);
    ASSERT_TRUE(optimizer) << traits.name;
    EXPECT_STREQ(optimizer->name, traits.name);
    EXPECT_TRUE(optimizer->update) << traits.name;
  }
  EXPECT_FALSE(findOptimizer(77));
}

TEST(Optimizer, SgdStepsAgainstTheGradient) {
  OptimizerOptions options = withRate("sgd", 0.1);
  Tensor tensor("sgd", {1, -2, 0.5f});
  EXPECT_TRUE(tensor.kept.empty());
  tensor.step(options, 1, {0.5f, 1, -4});
  EXPECT_FLOAT_EQ(tensor.parameters[0], 0.95f);
  EXPECT_FLOAT_EQ(tensor.parameters[1], -2.1f);
  EXPECT_FLOAT_EQ(tensor.parameters[2], 0.9f);
  options.weightDecay = 0.5;
  tensor.step(options, 2, {0.5f, 1, -4});
  EXPECT_FLOAT_EQ(tensor.parameters[0], 0.95f - 0.1f * (0.5f + 0.5f * 0.95f));
}

TEST(Optimizer, TheFirstMomentumIsTheGradient) {
  OptimizerOptions options = withRate("sgd", 0.1);
  options.momentum = 0.9;
  Tensor tensor("sgd", {1}, {true});
  tensor.step(options, 1, {0.5f});
  EXPECT_FLOAT_EQ(tensor.parameters[0], 0.95f);
  tensor.step(options, 2, {1});
  EXPECT_FLOAT_EQ(tensor.parameters[0], 0.95f - 0.1f * 1.45f);
}

TEST(Optimizer, LionStepsByTheSign) {
  OptimizerOptions options = withRate("lion", 0.1);
  options.beta2 = 0.5;
  Tensor tensor("lion", {1, 1, 1});
  tensor.step(options, 1, {1e-6f, -8, 0});
  EXPECT_EQ(tensor.parameters, (std::vector<float>{0.9f, 1.1f, 1}));
  // Of a momentum of -4, 0.9 weighs more than 0.1 of 8.
  tensor.step(options, 2, {1e-6f, 8, 0});
  EXPECT_FLOAT_EQ(tensor.parameters[1], 1.2f);
}

// AdamW as its paper writes it, in double.
struct ReferenceAdamw {
  double mean = 0, square = 0;

  double step(const OptimizerOptions &o, int number, double parameter, double gradient) {
    mean = o.beta1 * mean + (1 - o.beta1) * gradient;
    square = o.beta2 * square + (1 - o.beta2) * gradient * gradient;
    double first = mean / (1 - std::pow(o.beta1, number)), second = square / (1 - std::pow(o.beta2, number));
    return parameter - o.learningRate * o.weightDecay * parameter -
           o.learningRate * first / (std::sqrt(second) + o.epsilon);
  }
};

void compareAdamw(const OptimizerOptions &options) {
  constexpr int count = 37, steps = 50;
  std::vector<float> gradient(count);
  Tensor tensor("adamw", std::vector<float>(count));
  std::vector<float> &parameters = tensor.parameters;
  std::vector<double> expected(count);
  std::vector<ReferenceAdamw> reference(count);
  for (int i = 0; i < count; ++i)
    expected[i] = parameters[i] = 0.1f * static_cast<float>(i - 18) + 0.05f;
  for (int step = 1; step <= steps; ++step) {
    for (int i = 0; i < count; ++i) {
      gradient[i] = static_cast<float>(std::sin(step * 0.7 + i)) * std::pow(10.0f, static_cast<float>(i % 7 - 5));
      expected[i] = reference[i].step(options, step, expected[i], gradient[i]);
    }
    tensor.step(options, step, gradient);
  }
  double difference = 0, norm = 0;
  for (int i = 0; i < count; ++i) {
    difference += std::pow(parameters[i] - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-6);
}

TEST(Optimizer, AdamwAgreesWithItsFormula) {
  OptimizerOptions options = withRate("adamw", 2e-4);
  compareAdamw(options);
  options.weightDecay = 0.1;
  options.learningRate = 1e-2;
  compareAdamw(options);
  // A mean weight above a half takes the other branch of the interpolation.
  options.beta1 = 0.3;
  compareAdamw(options);
}

TEST(Optimizer, FirstAdamwStepIsTheLearningRate) {
  Tensor tensor("adamw", {0});
  tensor.step(withRate("adamw", 1e-3), 1, {-3});
  EXPECT_NEAR(tensor.parameters[0], 1e-3, 1e-9);
  EXPECT_FLOAT_EQ(*tensor.tensor.array<float>(0), -0.3f);
  EXPECT_FLOAT_EQ(*tensor.tensor.array<float>(1), 0.009f);
}

// A parameter in bf16 goes where the same one in f32 would, and is rounded there.
TEST(Optimizer, NarrowParametersAreUpdatedInF32AndRounded) {
  constexpr uint64_t count = 5000; // several pieces, the last one short
  for (const format::OptimizerTraits &traits : format::optimizers) {
    const char *name = traits.name;
    SCOPED_TRACE(name);
    std::vector<float> begin(count), gradient(count);
    std::vector<uint16_t> narrow(count);
    for (uint64_t i = 0; i < count; ++i) {
      narrow[i] = format::floatToBfloat(std::sin(0.1f * static_cast<float>(i)));
      begin[i] = format::bfloatToFloat(narrow[i]);
      gradient[i] = std::cos(0.3f * static_cast<float>(i));
    }
    Tensor wide(name, begin), rounded(name, begin);
    rounded.tensor.parameters = reinterpret_cast<unsigned char *>(narrow.data());
    rounded.tensor.isNarrow = true;
    wide.step(withRate(name, 0.05), 1, gradient);
    rounded.step(withRate(name, 0.05), 1, gradient);
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(narrow[i], format::floatToBfloat(wide.parameters[i])) << i;
    EXPECT_EQ(wide.kept, rounded.kept);
  }
}

// The codes of a map, by trying all of its values.
template <bool isSigned> void expectNearest(const DynamicMap<isSigned> &map, float number) {
  float error = std::fabs(map.decode(map.encode(number)) - number);
  for (int code = 0; code < 256; ++code)
    ASSERT_GE(std::fabs(map.decode(static_cast<uint8_t>(code)) - number), error) << number << " " << code;
}

TEST(Optimizer, ACodeIsTheNearest) {
  static constexpr DynamicMap<true> both;
  static constexpr DynamicMap<false> positive;
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(both.encode(both.decode(static_cast<uint8_t>(code))), code);
    EXPECT_EQ(positive.encode(positive.decode(static_cast<uint8_t>(code))), code);
    EXPECT_TRUE(code == 0 || both.decode(static_cast<uint8_t>(code)) > both.decode(static_cast<uint8_t>(code - 1)));
  }
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> exponent(-30, 0);
  for (int i = 0; i < 20000; ++i) {
    const float number = std::exp2(exponent(generator));
    expectNearest(both, number);
    expectNearest(both, -number);
    expectNearest(positive, number);
  }
  EXPECT_EQ(both.decode(both.encode(0)), 0);
}

TEST(Optimizer, RefusesOptionsThatCannotBeMeant) {
  auto refusal = [](mebp_optimizer optimizer, double mebp_session_options::*option, double value) {
    mebp_session_options options;
    mebp_session_options_init(&options);
    options.optimizer = optimizer;
    options.*option = value;
    return checkOptions(options).message();
  };
  using Options = mebp_session_options;
  EXPECT_EQ(refusal(MEBP_ADAMW, &Options::beta1, 0.5), "");
  EXPECT_EQ(refusal(MEBP_ADAMW, &Options::learning_rate, NAN),
            "the learning rate nan is not a finite number of at least 0");
  EXPECT_EQ(refusal(MEBP_MEZO, &Options::weight_decay, -1), "the weight decay -1 is not a finite number of at least 0");
  EXPECT_EQ(refusal(MEBP_LION, &Options::beta2, 1), "beta2 1 is not a number of at least 0 and below 1");
  EXPECT_EQ(refusal(MEBP_ADAMW8BIT, &Options::epsilon, INFINITY), "epsilon inf is not a finite number of at least 0");
  EXPECT_EQ(refusal(MEBP_MEZO, &Options::perturbation, 0), "perturbation 0 is not a finite number above 0");
  // Which have them, in the table's order.
  EXPECT_EQ(refusal(MEBP_SGD, &Options::beta1, 0.9).find("sgd has no option 'betas'; leave it out, or choose adamw, "),
            0u);
  EXPECT_EQ(refusal(MEBP_LION, &Options::epsilon, 0).find("lion has no option 'eps'; leave it out, or choose adamw, "),
            0u);
  EXPECT_EQ(refusal(MEBP_ADAMW, &Options::momentum, 0.9),
            "adamw has no option 'momentum'; leave it out, or choose sgd");
  EXPECT_EQ(refusal(MEBP_GALORE, &Options::galore_update_interval, 0.5),
            "galore_update_interval 0.5 is not a whole number above 0");
  EXPECT_EQ(refusal(MEBP_GALORE, &Options::galore_refresh, 2),
            "galore_refresh 2 is not a whole number of at least 0 and below 2");
  EXPECT_EQ(refusal(MEBP_ADAMW, &Options::galore_refresh, 1),
            "adamw has no option 'galore-refresh'; leave it out, or choose galore or qgalore");
  EXPECT_EQ(refusal(MEBP_GALORE, &Options::galore_scale, -1), "galore_scale -1 is not a finite number above 0");
  EXPECT_EQ(refusal(MEBP_MEZO, &Options::clip, 1), "mezo has no gradient that could be clipped; leave out clip");
  EXPECT_EQ(refusal(static_cast<mebp_optimizer>(77), &Options::beta1, 0.9),
            "optimizer number 77 is not in this build; choose " + format::listed(format::namesOf(format::optimizers)));
}

TEST(Optimizer, WhatIsNotGivenIsItsOwn) {
  mebp_session_options given;
  mebp_session_options_init(&given);
  given.optimizer = MEBP_LION;
  given.beta1 = 0.8;
  const OptimizerOptions options = optionsOf(given);
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.beta2, 0.99);
}

} // namespace
