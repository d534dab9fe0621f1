// SPDX-License-Identifier: Apache-2.0
//
// Calibration of a device that is not the CPU: by the ways that its self-test trusts, without what it lacks.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "format/machine.h"
#include "mebp/mebp.h"
#include "planted.h"
#include "support/handles.h"

using namespace mebp::test;
using Json = nlohmann::json;

namespace {

class DeviceCalibration : public testing::Test {
protected:
  DeviceCalibration() : cache(scratchPath()) {
    ::setenv("MEBP_CACHE", cache.c_str(), 1);
    planted() = Planted();
    mebp_calibration_options_init(&options);
    options.device = MEBP_MLX;
    options.quick = true;
  }
  ~DeviceCalibration() override { std::filesystem::remove_all(cache); }

  // Nothing where it is refused; then `error` says why.
  Json calibrate() {
    mebp_calibration *calibration = nullptr;
    code = mebp_calibration_create(&options, &calibration, &error);
    const char *text = mebp_calibration_json(calibration);
    Json json = text ? Json::parse(text, nullptr, false) : Json();
    mebp_calibration_destroy(calibration);
    return json;
  }

  std::string cache;
  mebp_calibration_options options;
  mebp_error error = {};
  mebp_code code = MEBP_OK;
};

TEST_F(DeviceCalibration, SaysWhichDeviceItWas) {
  const Json json = calibrate();
  ASSERT_EQ(code, MEBP_OK) << error.message;
  EXPECT_EQ(json["device"], "mlx");
  EXPECT_EQ(json["description"], "a planted device");
  EXPECT_EQ(json["processor"], mebp::format::processorName());
  EXPECT_EQ(json["kernels"], "spoiled");
}

// Threads mean nothing there: one column, with the names that the CPU has.
TEST_F(DeviceCalibration, HasOneRateOfEachTermByTheNamesOfTheCpu) {
  const Json ofDevice = calibrate()["nanoseconds"];
  options.device = MEBP_CPU;
  const Json ofCpu = calibrate()["nanoseconds"];
  ASSERT_GT(ofCpu.size(), 80u);
  EXPECT_EQ(ofDevice.size(), ofCpu.size());
  for (const auto &[name, rates] : ofCpu.items()) {
    ASSERT_TRUE(ofDevice.contains(name)) << name;
    EXPECT_EQ(ofDevice[name].size(), 1u) << name;
    double sum = 0;
    for (double rate : ofDevice[name][0])
      sum += rate;
    EXPECT_GT(sum, 0) << name;
  }
}

TEST_F(DeviceCalibration, LeavesOutWhatTheDeviceLacks) {
  planted().fault = PlantedFault::LacksNorm;
  const Json rates = calibrate()["nanoseconds"];
  ASSERT_EQ(code, MEBP_OK) << error.message;
  for (const char *name : {"rms_norm f32", "rms_norm bf16"})
    EXPECT_FALSE(rates.contains(name)) << name;
  for (const char *name : {"layer_norm f32", "rms_norm_input_gradient f32", "adamw", "spill"})
    EXPECT_TRUE(rates.contains(name)) << name;
}

TEST_F(DeviceCalibration, GoesTheWaysThatSessionsGo) {
  planted().fault = PlantedFault::ZeroAtOneRow;
  calibrate();
  ASSERT_EQ(code, MEBP_OK) << error.message;
  EXPECT_FALSE(planted().routes.quantisedProducts);
}

TEST_F(DeviceCalibration, RefusesADeviceThatComputesWrong) {
  planted().fault = PlantedFault::WrongNorm;
  EXPECT_EQ(calibrate(), Json());
  EXPECT_EQ(code, MEBP_UNSUPPORTED);
  EXPECT_EQ(std::string(error.message).find("the device 'mlx' computes wrong: rms_norm("), 0u) << error.message;
}

TEST_F(DeviceCalibration, RefusesThreads) {
  options.threads = 2;
  EXPECT_EQ(calibrate(), Json());
  EXPECT_EQ(code, MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the device 'mlx' has no threads to choose; leave them out");
}

TEST_F(DeviceCalibration, EndsWhereItIsTold) {
  int asked = 0;
  options.user = &asked;
  options.goes_on = [](void *user) { return ++*static_cast<int *>(user) < 3; };
  EXPECT_EQ(calibrate(), Json());
  EXPECT_STREQ(error.message, "calibration was interrupted; nothing was written");
  EXPECT_EQ(asked, 3);
}

} // namespace
