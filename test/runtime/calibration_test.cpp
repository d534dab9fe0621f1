// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "format/machine.h"
#include "format/optimizers.h"
#include "mebp/mebp.h"
#include "runtime/calibrate/calls.h"
#include "runtime/calibrate/fit.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;
using format::Amounts;
using format::nanosecondsOf;
using format::Rates;
using Json = nlohmann::json;

namespace {

// Of products of a few shapes: amounts that differ by six orders of magnitude.
std::vector<Sample> productsAt(const Rates &rates) {
  std::vector<Sample> samples;
  for (double rows : {16.0, 64.0, 512.0})
    for (auto [inputs, outputs] : {std::pair{768.0, 256.0}, std::pair{768.0, 3072.0}, std::pair{3072.0, 768.0}}) {
      Amounts amounts = {1, rows * inputs * outputs, inputs * outputs, rows * (inputs + outputs)};
      samples.push_back({amounts, nanosecondsOf(amounts, rates)});
    }
  return samples;
}

TEST(Fit, FindsTheRatesThatTimesWereMadeWith) {
  Rates rates = {2000, 0.012, 0.25, 0.5}, found = fitRates(productsAt(rates));
  for (size_t term = 0; term < format::termCount; ++term)
    EXPECT_NEAR(found[term], rates[term], 1e-5 * rates[term]) << format::termNames[term];
}

TEST(Fit, PredictsOtherShapesFromNoisyTimes) {
  Rates rates = {2000, 0.012, 0.25, 0.5};
  std::vector<Sample> samples = productsAt(rates);
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> noise(0.93, 1.07);
  for (Sample &sample : samples)
    sample.nanoseconds *= noise(generator);
  Rates found = fitRates(samples);
  for (double rows : {32.0, 128.0, 1024.0}) {
    Amounts amounts = {1, rows * 896 * 4864, 896 * 4864, rows * (896 + 4864)};
    EXPECT_NEAR(nanosecondsOf(amounts, found) / nanosecondsOf(amounts, rates), 1, 0.07) << rows << " rows";
  }
}

// A long call must not drown the short ones, of which a step may have thousands.
TEST(Fit, MindsRelativeErrors) {
  Rates found = fitRates({{{1, 0, 0, 100}, 2000}, {{1, 0, 0, 1e8}, 3e7}, {{1, 0, 0, 1e8}, 5e7}});
  EXPECT_NEAR(nanosecondsOf({1, 0, 0, 100}, found), 2000, 20);
}

TEST(Fit, HasNoNegativeRate) {
  // Each call seems to take less than nothing.
  Rates found = fitRates({{{1, 0, 0, 10}, 80}, {{1, 0, 0, 20}, 190}, {{1, 0, 0, 30}, 310}});
  EXPECT_EQ(found[0], 0);
  EXPECT_NEAR(found[3], 9.3, 0.7);
}

TEST(Fit, GivesTermsThatItCannotTellApartToOne) {
  Rates found = fitRates({{{1, 0, 50, 100}, 1100}, {{1, 0, 100, 200}, 2100}, {{1, 0, 200, 400}, 4100}});
  EXPECT_NEAR(nanosecondsOf({1, 0, 400, 800}, found), 8100, 1);
  EXPECT_EQ(found[1], 0);
}

TEST(Machine, IsNamedAsLinuxNamesIt) {
  auto nameIn = [](const char *content) {
    std::string path = scratchPath();
    std::ofstream(path) << content;
    return format::processorName(path);
  };
  EXPECT_EQ(nameIn("processor\t: 0\nmodel\t\t: 2\nmodel name\t: Some Processor 9\nmodel name\t: Another\n"),
            "Some Processor 9");
  EXPECT_EQ(nameIn("BogoMIPS\t: 48.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nCPU implementer\t: 0x41\n"),
            "Arm 0x41 0xd0c");
  EXPECT_EQ(nameIn(""), "unknown");
  EXPECT_EQ(format::processorName("/nowhere"), "unknown");
}

TEST(Calibration, HasRatesOfEveryNameOnEachNumberOfThreads) {
  mebp_calibration_options options = {};
  options.threads = 2;
  options.quick = true;
  mebp_calibration *calibration = nullptr;
  mebp_error error;
  ASSERT_EQ(mebp_calibration_create(&options, &calibration, &error), MEBP_OK) << error.message;
  Json json = Json::parse(mebp_calibration_json(calibration), nullptr, false);
  mebp_calibration_destroy(calibration);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["version"], format::ratesVersion);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["description"].get<std::string>().find(format::processorName() + ", "), 0u);
  EXPECT_EQ(json["processor"], format::processorName());
  EXPECT_EQ(json["threads"], Json({1, 2}));
  for (const char *name : {"linear bf16 int4", "linear_input_gradient f32 lora_down", "attention_gradient bf16",
                           "gated f32 gelu_tanh", "log_probability_tile f32"})
    EXPECT_TRUE(json["nanoseconds"].contains(name)) << name;
  for (const std::string &name : format::namesOf(format::optimizers))
    EXPECT_TRUE(json["nanoseconds"].contains(name)) << name;
  for (const auto &[name, rates] : json["nanoseconds"].items()) {
    ASSERT_EQ(rates.size(), 2u) << name;
    for (const Json &ofCount : rates) {
      ASSERT_EQ(ofCount.size(), format::termCount) << name;
      double sum = 0;
      for (double rate : ofCount) {
        EXPECT_GE(rate, 0) << name;
        sum += rate;
      }
      EXPECT_GT(sum, 0) << name;
    }
  }
}

// The pools are as large as the largest call needs: a full list once wrote beyond them.
TEST(Calibration, HasRoomForEveryCall) {
  for (bool quick : {true, false}) {
    Pools pools;
    const std::vector<TimedCall> calls = listTimedCalls(pools, quick);
    pools.allocate();
    EXPECT_GT(calls.size(), 100u);
    for (const TimedCall &call : calls)
      for (const std::vector<Tensor> *tensors : {&call.operands, &call.results})
        for (const Tensor &tensor : *tensors)
          EXPECT_LE(tensor.offset + mebp::bytesOf(tensor), pools.bytesOf(tensor.pool)) << call.rate;
  }
}

TEST(Calibration, RefusesADeviceThatDoesNotExist) {
  mebp_calibration_options options = {};
  options.device = static_cast<mebp_backend>(99);
  mebp_calibration *calibration = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_calibration_create(&options, &calibration, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "there is no device number 99; choose cpu, mlx or mlx-cpu");
}

TEST(Calibration, EndsWhereItIsTold) {
  mebp_calibration_options options = {};
  int asked = 0;
  options.user = &asked;
  options.goes_on = [](void *user) { return ++*static_cast<int *>(user) < 3; };
  mebp_calibration *calibration = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_calibration_create(&options, &calibration, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "calibration was interrupted; nothing was written");
  EXPECT_EQ(calibration, nullptr);
  EXPECT_EQ(asked, 3);
}

} // namespace
