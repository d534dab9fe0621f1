// SPDX-License-Identifier: Apache-2.0
//
// Options that only some optimizers have: each row of the table, through the C API.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class OptimizerOptionsTest : public BundleTest {
protected:
  void expectNoSession(const mebp_session_options &options, const char *part) {
    mebp_session *created = nullptr;
    expectRefusal(mebp_session_create(bundle.handle, &options, &created, &error), part);
    EXPECT_EQ(created, nullptr);
    EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &options), 0u) << part;
    EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, &options), 0u) << part;
  }
};

TEST_F(OptimizerOptionsTest, RefusesOddNumbersAndPlansNothingForThem) {
  for (const OptimizerOption &option : optimizerOptions)
    for (const format::OptimizerTraits &traits : format::optimizers) {
      mebp_session_options options = defaultOptions();
      options.optimizer = static_cast<mebp_optimizer>(traits.number);
      std::vector<double> numbers = {nan, infinity, -2};
      if (!findOptimizer(traits.number)->takes(option))
        numbers = {0.5}; // which is another's
      else if (std::isfinite(option.below))
        numbers.push_back(option.below);
      else if (option.isWhole)
        numbers.push_back(1.5);
      if (!option.mayBeZero && option.notGiven != 0)
        numbers.push_back(0);
      for (double number : numbers) {
        options.*option.given = number;
        expectNoSession(options, number == 0.5 ? option.called : option.name);
      }
    }
}

TEST_F(OptimizerOptionsTest, SetsOptionsByTheirNames) {
  mebp_session_options options = defaultOptions();
  auto set = [&](const char *name, const char *value) {
    return mebp_session_options_set(&options, name, value, &error);
  };
  EXPECT_EQ(set("betas", "0.8, 0.95"), MEBP_OK) << error.message;
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.beta2, 0.95);
  EXPECT_EQ(set("beta2", "0"), MEBP_OK) << error.message; // a field
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.beta2, 0);
  EXPECT_EQ(set("eps", "1e-7"), MEBP_OK) << error.message;
  EXPECT_EQ(options.epsilon, 1e-7);
  EXPECT_EQ(set("galore-refresh", "svd"), MEBP_OK) << error.message;
  EXPECT_EQ(options.galore_refresh, MEBP_REFRESH_BY_SVD);
  EXPECT_EQ(set("galore_update_interval", "50"), MEBP_OK) << error.message;
  EXPECT_EQ(options.galore_update_interval, 50);

  auto expectRefused = [&](const char *name, const char *value, const char *line) {
    const mebp_session_options before = options;
    EXPECT_EQ(set(name, value), MEBP_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, line);
    EXPECT_EQ(std::memcmp(&before, &options, sizeof(options)), 0);
  };
  for (const char *text : {"-1", "nan", "inf", "1e-8 ", "1;", "1,2"})
    expectRefused("eps", text, (std::string("eps is ") + text + "; give a finite number of at least 0").c_str());
  for (const char *text : {"0.7", "0.7,", "0.7,1", "0.7,0.8,0.9", "0.7,x"})
    expectRefused(
        "betas", text,
        (std::string("betas is ") + text + "; give 2 with a comma between, each a number of at least 0 and below 1")
            .c_str());
  expectRefused("galore-scale", "0", "galore-scale is 0; give a finite number above 0");
  expectRefused("galore_update_interval", "0.5", "galore_update_interval is 0.5; give a whole number above 0");
  expectRefused("galore_refresh", "1", "galore_refresh is '1'; choose sketch or svd");
  EXPECT_EQ(set("rate", "1"), MEBP_UNSUPPORTED);
  EXPECT_EQ(std::string(error.message).find("no optimizer has an option 'rate'; choose betas, eps, momentum, "), 0u);
  expectRefusal(mebp_session_options_set(nullptr, "eps", "1", &error), "'options' is NULL");
  expectRefusal(set(nullptr, "1"), "'name' is NULL");
  expectRefusal(set("eps", nullptr), "'value' is NULL");
  options.size = 0;
  expectRefusal(set("eps", "1"), "call mebp_session_options_init");
  options.size = offsetof(mebp_session_options, momentum); // an older program's
  EXPECT_EQ(set("eps", "1"), MEBP_OK);
  expectRefusal(set("momentum", "0.5"), "momentum: the program was built with an older mebp.h", MEBP_UNSUPPORTED);
  EXPECT_EQ(options.momentum, 0);
}

TEST_F(OptimizerOptionsTest, ListsTheOptionsOfOptimizers) {
  std::vector<std::string> names;
  size_t fields = 0;
  for (uint32_t i = 0; i < mebp_optimizer_option_count(); ++i) {
    mebp_optimizer_option_info info;
    mebp_optimizer_option_info_init(&info);
    ASSERT_EQ(mebp_optimizer_option_get_info(i, &info, &error), MEBP_OK) << error.message;
    names.emplace_back(info.name);
    fields += info.numbers;
    EXPECT_NE(std::string(info.written), "") << info.name;
    if (std::string(info.name) == "galore-refresh") {
      EXPECT_STREQ(info.help,
                   "of galore and qgalore, find subspaces by sketch, or exactly by svd, slowly (default: sketch)");
    }
    if (std::string(info.name) == "betas") {
      EXPECT_NE(std::string(info.help).find("; lion: 0.9,0.99"), std::string::npos) << info.help;
    }
    EXPECT_EQ(std::string(info.help).find("of "), 0u) << info.name; // who takes it
    EXPECT_NE(std::string(info.help).find("(default: "), std::string::npos) << info.name;
    mebp_session_options options = defaultOptions();
    const std::string value = info.choices ? *info.choices : info.numbers > 1 ? "0.5,0.5" : info.is_whole ? "1" : "0.5";
    EXPECT_EQ(mebp_session_options_set(&options, info.name, value.c_str(), &error), MEBP_OK) << error.message;
    if (std::string(info.name) == "galore-refresh") {
      EXPECT_STREQ(info.choices[1], "svd");
      EXPECT_EQ(info.choices[2], nullptr);
    }
  }
  EXPECT_EQ(names.front(), "betas");
  EXPECT_EQ(fields, std::size(optimizerOptions));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  mebp_optimizer_option_info info;
  mebp_optimizer_option_info_init(&info);
  expectRefusal(mebp_optimizer_option_get_info(UINT32_MAX, &info, &error),
                "option 4294967295 does not exist; there are");
  expectRefusal(mebp_optimizer_option_get_info(0, nullptr, &error), "'out' is NULL");
}

} // namespace
