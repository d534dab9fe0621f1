// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/core/decimal.h"
#include "runtime/optim/optimizer.h"

using namespace mebp;

namespace {

TEST(Optimizer, TakesTheDecimalThatWasWritten) {
  EXPECT_EQ(decimalOf(0.999f), 0.999);
  EXPECT_EQ(decimalOf(2e-4f), 2e-4);
  EXPECT_EQ(decimalOf(1e-8f), 1e-8);
  EXPECT_EQ(decimalOf(0.0f), 0.0);
}

TEST(Optimizer, SgdStepsAgainstTheGradient) {
  float parameters[3] = {1, -2, 0.5f}, gradient[3] = {0.5f, 1, -4};
  OptimizerOptions options;
  options.learningRate = 0.1;
  updateSgd(options, 1, parameters, gradient, nullptr, 3);
  EXPECT_FLOAT_EQ(parameters[0], 0.95f);
  EXPECT_FLOAT_EQ(parameters[1], -2.1f);
  EXPECT_FLOAT_EQ(parameters[2], 0.9f);
  options.weightDecay = 0.5;
  updateSgd(options, 2, parameters, gradient, nullptr, 1);
  EXPECT_FLOAT_EQ(parameters[0], 0.95f - 0.1f * (0.5f + 0.5f * 0.95f));
}

// The update as its paper writes it, in double.
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
  std::vector<float> parameters(count), mean(count), square(count), gradient(count);
  std::vector<double> expected(count);
  std::vector<ReferenceAdamw> reference(count);
  for (int i = 0; i < count; ++i)
    expected[i] = parameters[i] = 0.1f * static_cast<float>(i - 18) + 0.05f;
  float *state[2] = {mean.data(), square.data()};
  for (int step = 1; step <= steps; ++step) {
    for (int i = 0; i < count; ++i) {
      gradient[i] = static_cast<float>(std::sin(step * 0.7 + i)) * std::pow(10.0f, static_cast<float>(i % 7 - 5));
      expected[i] = reference[i].step(options, step, expected[i], gradient[i]);
    }
    updateAdamw(options, step, parameters.data(), gradient.data(), state, count);
  }
  double difference = 0, norm = 0;
  for (int i = 0; i < count; ++i) {
    difference += std::pow(parameters[i] - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-6);
}

TEST(Optimizer, AdamwAgreesWithItsFormula) {
  OptimizerOptions options{2e-4, 0.9, 0.999, 1e-8, 0};
  compareAdamw(options);
  options.weightDecay = 0.1;
  options.learningRate = 1e-2;
  compareAdamw(options);
  // A mean weight above a half takes the other branch of the interpolation.
  options.beta1 = 0.3;
  compareAdamw(options);
}

TEST(Optimizer, FirstAdamwStepIsTheLearningRate) {
  OptimizerOptions options{1e-3, 0.9, 0.999, 1e-8, 0};
  float parameter = 0, mean = 0, square = 0, gradient = -3;
  float *state[2] = {&mean, &square};
  updateAdamw(options, 1, &parameter, &gradient, state, 1);
  EXPECT_NEAR(parameter, 1e-3, 1e-9);
  EXPECT_FLOAT_EQ(mean, -0.3f);
  EXPECT_FLOAT_EQ(square, 0.009f);
}

TEST(Optimizer, RefusesOptionsThatCannotBeMeant) {
  mebp_session_options options;
  mebp_session_options_init(&options);
  EXPECT_TRUE(checkOptions(options).ok());
  options.learning_rate = NAN;
  EXPECT_EQ(checkOptions(options).code(), MEBP_INVALID_ARGUMENT);
  mebp_session_options_init(&options);
  options.beta2 = 1;
  EXPECT_EQ(checkOptions(options).code(), MEBP_INVALID_ARGUMENT);
  mebp_session_options_init(&options);
  options.optimizer = static_cast<mebp_optimizer>(7);
  EXPECT_EQ(checkOptions(options).code(), MEBP_UNSUPPORTED);
}

} // namespace
