// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <unistd.h>

#include "format/optimizers.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

class StateTest : public testing::Test {
protected:
  void TearDown() override { std::filesystem::remove_all(parent); }

  float stepOf(mebp_session *session, uint64_t seed) {
    std::vector<int32_t> ids = tinyTokens(10, seed);
    mebp_step_result result;
    EXPECT_EQ(mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    return result.loss;
  }
  std::string refusal(mebp_session *session, mebp_code expected) {
    std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session);
    mebp_error error = {};
    EXPECT_EQ(mebp_session_load_state(session, folder.c_str(), nullptr, nullptr, &error), expected) << error.message;
    EXPECT_EQ(trainablesOf(bundle.handle, session), before);
    EXPECT_EQ(mebp_session_steps(session), 0u);
    return error.message;
  }

  BundleFolder files{tinyBundle({})};
  OpenBundle bundle{files.path()};
  // Saving makes both.
  std::string parent = scratchPath(), folder = parent + "/below";
};

TEST_F(StateTest, ContinuesBitwise) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    SCOPED_TRACE(traits.name);
    auto optimizer = static_cast<mebp_optimizer>(traits.number);
    mebp_session_options options = defaultOptions();
    options.optimizer = optimizer;
    options.accumulate = optimizer == MEBP_SGD;
    options.clip = optimizer == MEBP_SGD ? 0.1f : 0.0f;
    OpenSession through(bundle.handle, options), first(bundle.handle, options);
    for (uint64_t step = 0; step < 3; ++step) {
      stepOf(through.handle, step);
      stepOf(first.handle, step);
    }
    mebp_session_set_learning_rate(through.handle, 1e-3, nullptr);
    mebp_session_set_learning_rate(first.handle, 1e-3, nullptr);
    const char position[] = "row 17";
    ASSERT_EQ(mebp_session_save_state(first.handle, folder.c_str(), position, sizeof(position), nullptr), MEBP_OK);

    OpenSession second(bundle.handle, options);
    char found[32] = {};
    uint64_t size = sizeof(found);
    mebp_error error;
    ASSERT_EQ(mebp_session_load_state(second.handle, folder.c_str(), found, &size, &error), MEBP_OK) << error.message;
    EXPECT_STREQ(found, position);
    EXPECT_EQ(size, sizeof(position));
    EXPECT_EQ(mebp_session_steps(second.handle), 3u);
    for (uint64_t step = 3; step < 6; ++step)
      EXPECT_EQ(stepOf(second.handle, step), stepOf(through.handle, step));
    EXPECT_EQ(trainablesOf(bundle.handle, second.handle), trainablesOf(bundle.handle, through.handle));
  }
}

TEST_F(StateTest, AsksForEnoughRoom) {
  OpenSession session(bundle.handle);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), "12345678", 8, nullptr), MEBP_OK);
  char small[4];
  uint64_t size = sizeof(small);
  EXPECT_EQ(mebp_session_load_state(session.handle, folder.c_str(), small, &size, nullptr), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_load_state(session.handle, folder.c_str(), nullptr, &size, nullptr), MEBP_OK);
  EXPECT_EQ(size, 8u);
}

TEST_F(StateTest, RefusesDamage) {
  OpenSession session(bundle.handle), fresh(bundle.handle);
  refusal(fresh.handle, MEBP_NOT_FOUND);
  stepOf(session.handle, 1);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), "user", 4, nullptr), MEBP_OK);
  std::string path = folder + "/state.bin", whole = readWhole(path);
  for (size_t at = 0; at < whole.size(); at += 3) {
    // Bytes that only pad a tensor are under the checksum, too.
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 64);
    writeWhole(path, changed);
    mebp_error error;
    mebp_code code = mebp_session_load_state(fresh.handle, folder.c_str(), nullptr, nullptr, &error);
    EXPECT_TRUE(code == MEBP_CORRUPT || code == MEBP_INCOMPATIBLE) << at << ": " << error.message;
  }
  for (size_t size : {size_t(0), size_t(50), size_t(104), whole.size() - 1}) {
    writeWhole(path, whole.substr(0, size));
    refusal(fresh.handle, MEBP_CORRUPT);
  }
}

TEST_F(StateTest, RefusesAnotherRun) {
  OpenSession session(bundle.handle);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  mebp_session_options options = defaultOptions();
  options.optimizer = MEBP_SGD;
  OpenSession sgd(bundle.handle, options);
  EXPECT_NE(refusal(sgd.handle, MEBP_INCOMPATIBLE).find("another optimizer"), std::string::npos);
  options = defaultOptions();
  options.beta2 = 0.99;
  OpenSession beta(bundle.handle, options);
  EXPECT_NE(refusal(beta.handle, MEBP_INCOMPATIBLE).find("beta2 0.999"), std::string::npos);
  options = defaultOptions();
  options.clip = 0.1;
  OpenSession clipping(bundle.handle, options);
  EXPECT_NE(refusal(clipping.handle, MEBP_INCOMPATIBLE).find("with clip 0, the session has 0.1"), std::string::npos);
  options = defaultOptions();
  options.reference_kernels = true;
  OpenSession reference(bundle.handle, options);
  refusal(reference.handle, MEBP_INCOMPATIBLE);

  TinyOptions other;
  other.bound = 0.25f;
  BundleFolder otherFiles(tinyBundle(other));
  OpenBundle otherBundle(otherFiles.path());
  OpenSession otherSession(otherBundle.handle);
  EXPECT_NE(refusal(otherSession.handle, MEBP_INCOMPATIBLE).find("another bundle"), std::string::npos);
}

TEST_F(StateTest, KeepsTheOldStateWhereTheDiskIsFull) {
  OpenSession session(bundle.handle);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  std::string before = readWhole(folder + "/state.bin");
  stepOf(session.handle, 1);
  ASSERT_EQ(::symlink("/dev/full", (folder + "/state.bin.new").c_str()), 0);
  mebp_error error;
  EXPECT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, &error), MEBP_IO);
  EXPECT_EQ(readWhole(folder + "/state.bin"), before);
}

} // namespace
