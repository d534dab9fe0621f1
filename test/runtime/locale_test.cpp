// SPDX-License-Identifier: Apache-2.0
//
// A host program whose locale writes numbers with a comma: what the library reads and writes stays as it is.
#include <clocale>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "format/byte_size.h"
#include "runtime/core/decimal.h"
#include "support/command.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

class CommaLocale : public testing::Test {
protected:
  // Made by localedef, for few machines have it.
  void SetUp() override {
    std::filesystem::create_directories(scratch);
    Outcome made = runCommand("localedef -i de_DE -f UTF-8 " + scratch + "/de_DE.UTF-8", scratch);
    ASSERT_EQ(made.status, 0) << made.errors << ": the package locales has what localedef needs";
    ::setenv("LOCPATH", scratch.c_str(), 1);
    ASSERT_NE(std::setlocale(LC_ALL, "de_DE.UTF-8"), nullptr);
    char number[8];
    std::snprintf(number, sizeof(number), "%.1f", 0.5);
    ASSERT_STREQ(number, "0,5");
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
    std::filesystem::remove_all(scratch);
  }

  std::string scratch = scratchPath();
};

TEST_F(CommaLocale, ChangesNoNumber) {
  EXPECT_EQ(decimalOf(0.999f), 0.999);
  uint64_t bytes = 0;
  EXPECT_EQ(format::parseByteSize("1.5KiB", bytes), "");
  EXPECT_EQ(bytes, 1536u);
  double number = 0;
  EXPECT_TRUE(readDecimal("1.5e-3", number));
  EXPECT_EQ(number, 1.5e-3);
  EXPECT_FALSE(readDecimal("1,5", number));

  TinyOptions tiny;
  tiny.loraAlpha = 4.5f;
  BundleFolder folder(tinyBundle(tiny));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.learning_rate = -0.5;
  mebp_session *refused = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &refused, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the learning rate -0.5 is not a finite number of at least 0");
  EXPECT_TRUE(nlohmann::json::accept(mebp_bundle_describe_json(bundle.handle)));

  options = defaultOptions();
  const std::string trace = scratch + "/trace.json", adapter = scratch + "/adapter", state = scratch + "/state";
  options.trace_file = trace.c_str();
  std::vector<int32_t> ids = tinyTokens(10);
  {
    OpenSession session(bundle.handle, options);
    const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
    mebp_step_result result;
    ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK);
    EXPECT_NE(trainablesOf(bundle.handle, session.handle), before); // the learning rate was not 0
    ASSERT_EQ(mebp_session_save_adapter(session.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
    EXPECT_EQ(mebp_session_load_adapter(session.handle, adapter.c_str(), &error), MEBP_OK) << error.message;
    ASSERT_EQ(mebp_session_save_state(session.handle, state.c_str(), nullptr, 0, &error), MEBP_OK) << error.message;
    EXPECT_EQ(mebp_session_load_state(session.handle, state.c_str(), nullptr, nullptr, &error), MEBP_OK)
        << error.message;
  }
  EXPECT_NE(readWhole(adapter + "/adapter_config.json").find("\"lora_alpha\": 4.5,"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(readWhole(trace)));
}

} // namespace
