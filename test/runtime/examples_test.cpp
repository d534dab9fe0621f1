// SPDX-License-Identifier: Apache-2.0
//
// The example programs as a newcomer runs them, against the same steps taken here.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "support/command.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

class ExamplesTest : public testing::Test {
protected:
  void SetUp() override {
    std::filesystem::create_directories(scratch);
    writeIds(tinyTokens(tinySequence));
  }
  void TearDown() override { std::filesystem::remove_all(scratch); }

  void writeIds(const std::vector<int32_t> &ids) {
    std::string text;
    for (int32_t id : ids)
      text += std::to_string(id) + " ";
    writeWhole(scratch + "/ids.txt", text);
  }
  Outcome run(const std::string &program, const std::string &path) {
    return runCommand(program + " " + path + " " + scratch + "/adapter < " + scratch + "/ids.txt", scratch);
  }

  // The printed losses and the saved adapter are those of ten steps with these options.
  void expectTenSteps(const Outcome &outcome, const mebp_session_options &options) {
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    OpenBundle opened(bundle.path());
    OpenSession session(opened.handle, options), saved(opened.handle);
    std::vector<int32_t> ids = tinyTokens(tinySequence);
    for (int step = 1; step <= 10; ++step) {
      mebp_step_result result;
      ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 1, tinySequence, &result, nullptr), MEBP_OK);
      char line[64];
      std::snprintf(line, sizeof(line), "step %d  loss %.4f", step, result.loss);
      EXPECT_NE(outcome.output.find(line), std::string::npos) << line << " is not in " << outcome.output;
    }
    ASSERT_EQ(mebp_session_load_adapter(saved.handle, (scratch + "/adapter").c_str(), nullptr), MEBP_OK);
    EXPECT_EQ(trainablesOf(opened.handle, saved.handle), trainablesOf(opened.handle, session.handle));
  }
  // What train_explained says about the gradients before the first step.
  std::string largestGradient() {
    OpenBundle opened(bundle.path());
    OpenSession session(opened.handle);
    std::vector<int32_t> ids = tinyTokens(tinySequence);
    double loss = 0;
    EXPECT_EQ(mebp_session_gradients(session.handle, ids.data(), ids.data(), 1, tinySequence, &loss, nullptr), MEBP_OK);
    std::vector<std::vector<float>> gradients = gradientsOf(opened.handle, session.handle);
    double largest = -1;
    uint32_t found = 0;
    for (uint32_t i = 0; i < gradients.size(); ++i) {
      double squares = 0;
      for (float value : gradients[i])
        squares += static_cast<double>(value) * value;
      if (squares > largest) {
        largest = squares;
        found = i;
      }
    }
    mebp_tensor_info tensor;
    EXPECT_EQ(mebp_bundle_trainable_info(opened.handle, found, &tensor, nullptr), MEBP_OK);
    char line[256];
    std::snprintf(line, sizeof(line), "loss %.4f before training; the largest of %zu gradients: %s, norm %.4g\n", loss,
                  gradients.size(), tensor.name, std::sqrt(largest));
    return line;
  }
  void expectRefusals(const std::string &program) {
    auto expectRefusal = [](const Outcome &outcome, const std::string &part) {
      EXPECT_EQ(outcome.status, 2);
      EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors << " instead of " << part;
      EXPECT_EQ(outcome.errors.find('\n'), outcome.errors.size() - 1) << outcome.errors;
    };
    expectRefusal(runCommand(program, scratch), "usage: ");
    expectRefusal(run(program, "/nowhere.mebp"), "no bundle at /nowhere.mebp");
    writeIds({1, 2, 11});
    expectRefusal(run(program, bundle.path()), "token 11 at row 0, position 2");
    writeIds({});
    expectRefusal(run(program, bundle.path()), "needs at least one token");
    EXPECT_FALSE(std::filesystem::exists(scratch + "/adapter"));
  }

  BundleFolder bundle{tinyBundle({})};
  std::string scratch = scratchPath();
};

TEST_F(ExamplesTest, TerseTrains) { expectTenSteps(run(TRAIN_TERSE, bundle.path()), defaultOptions()); }

TEST_F(ExamplesTest, ExplainedTrains) {
  mebp_session_options options = defaultOptions();
  options.learning_rate = 1e-3;
  Outcome outcome = run(TRAIN_EXPLAINED, bundle.path());
  expectTenSteps(outcome, options);
  EXPECT_NE(outcome.output.find("planned peak 1.0 MB"), std::string::npos) << outcome.output;
  OpenBundle opened(bundle.path());
  options.threads = 2;
  char peak[64];
  std::snprintf(peak, sizeof(peak), "with these options: %.1f MB\n",
                static_cast<double>(mebp_session_peak_bytes(opened.handle, &options)) / 1e6);
  EXPECT_NE(outcome.output.find(peak), std::string::npos) << peak << " is not in " << outcome.output;
  EXPECT_NE(outcome.output.find(largestGradient()), std::string::npos) << outcome.output;
}

// Of two halves with as many labels, the average of their gradients is that of both.
TEST_F(ExamplesTest, AveragedHalvesTrainAsOne) {
  const std::vector<int32_t> ids = tinyTokens(2 * tinySequence);
  writeIds(ids);
  const Outcome outcome =
      runCommand(std::string(AVERAGE_GRADIENTS) + " " + bundle.path() + " < " + scratch + "/ids.txt", scratch);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  OpenBundle opened(bundle.path());
  mebp_session_options options = defaultOptions();
  options.accumulate = true;
  OpenSession session(opened.handle, options);
  const mebp_batch halves[] = {{ids.data(), ids.data(), 1, tinySequence},
                               {ids.data() + tinySequence, ids.data() + tinySequence, 1, tinySequence}};
  for (int step = 1; step <= 10; ++step) {
    for (int half = 0; half < 2; ++half) {
      double expected, found = 0;
      const mebp_batch &own = halves[half];
      ASSERT_EQ(mebp_session_loss(session.handle, own.ids, own.labels, 1, tinySequence, &expected, nullptr), MEBP_OK);
      const std::string begin = "half " + std::to_string(half) + ", step " + std::to_string(step) + ": loss ";
      const size_t at = outcome.output.find(begin);
      ASSERT_NE(at, std::string::npos) << begin << outcome.output;
      found = std::strtod(outcome.output.c_str() + at + begin.size(), nullptr);
      EXPECT_NEAR(found, expected, 1e-4) << begin;
    }
    mebp_step_result result;
    mebp_step_result_init(&result);
    ASSERT_EQ(mebp_session_step_batches(session.handle, halves, 2, &result, nullptr), MEBP_OK);
  }
}

TEST_F(ExamplesTest, BothRefuseBadInputInOneLine) {
  expectRefusals(TRAIN_TERSE);
  expectRefusals(TRAIN_EXPLAINED);
}

} // namespace
