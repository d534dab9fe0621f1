// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <tuple>

#include "format/container.h"
#include "format/optimizers.h"
#include "support/full_disk.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// With something else in its place within the header, and the checksum of that.
void replaceIn(std::string &state, const std::string &what, const std::string &by) {
  size_t place = state.find(what);
  ASSERT_NE(place, std::string::npos) << what;
  state.replace(place, what.size(), by);
  uint64_t headerBytes = 0;
  std::memcpy(&headerBytes, state.data(), sizeof(headerBytes));
  headerBytes += by.size() - what.size();
  std::memcpy(&state[0], &headerBytes, sizeof(headerBytes));
  uint32_t checksum = format::crc32(state.data(), state.size() - 4);
  std::memcpy(&state[state.size() - 4], &checksum, sizeof(checksum));
}

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
    if (traits.projects)
      continue; // its bundles are others: test/e2e/test_galore.py
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
  EXPECT_EQ(size, 8u);
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
  for (size_t size : {size_t(0), size_t(50), size_t(128), whole.size() - 1}) {
    writeWhole(path, whole.substr(0, size));
    refusal(fresh.handle, MEBP_CORRUPT);
  }
  writeWhole(path, "this is text");
  EXPECT_EQ(refusal(fresh.handle, MEBP_CORRUPT), path + ": is not a saved state; choose another folder");
}

TEST_F(StateTest, UsesTheStateBeforeADamagedOne) {
  OpenSession session(bundle.handle), asItWas(bundle.handle);
  stepOf(session.handle, 1);
  stepOf(asItWas.handle, 1);
  for (const char *user : {"1", "2", "3"}) {
    ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), user, 1, nullptr), MEBP_OK);
    stepOf(session.handle, 2);
  }
  stepOf(asItWas.handle, 2);
  std::string path = folder + "/state.bin", whole = readWhole(path);
  auto expectTheOlder = [&](const std::string &what) {
    OpenSession fresh(bundle.handle);
    char user = 0;
    uint64_t size = 1, steps = 0;
    mebp_error error = {};
    EXPECT_STREQ(mebp_session_notes(fresh.handle), "");
    ASSERT_EQ(mebp_session_load_state(fresh.handle, folder.c_str(), &user, &size, &error), MEBP_OK) << error.message;
    EXPECT_EQ(user, '2');
    EXPECT_EQ(mebp_session_notes(fresh.handle), path + ": is " + what + ", so the state before it is used, of step 2");
    EXPECT_EQ(trainablesOf(bundle.handle, fresh.handle), trainablesOf(bundle.handle, asItWas.handle));
    EXPECT_EQ(mebp_state_steps(folder.c_str(), &steps, nullptr), MEBP_OK);
    EXPECT_EQ(steps, 2u);
  };
  for (size_t at = 0; at < whole.size(); at += 7) {
    SCOPED_TRACE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    writeWhole(path, changed);
    expectTheOlder("damaged");
  }
  std::filesystem::remove(path);
  expectTheOlder("missing");

  // The next save replaces the damaged one, and goes on from there.
  writeWhole(path, whole.substr(1));
  OpenSession again(bundle.handle), fresh(bundle.handle);
  ASSERT_EQ(mebp_session_load_state(again.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_save_state(again.handle, folder.c_str(), "4", 1, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_load_state(fresh.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  EXPECT_STREQ(mebp_session_notes(fresh.handle), "");

  std::string previous = folder + "/state.previous.bin";
  writeWhole(path, whole.substr(1));
  writeWhole(previous, whole.substr(2));
  OpenSession last(bundle.handle);
  EXPECT_EQ(refusal(last.handle, MEBP_CORRUPT), path + ": is not a saved state; choose another folder; " + previous +
                                                    ": is not a saved state; choose another folder");
}

// A run that starts over in a folder must not fall back to the run before it.
TEST_F(StateTest, KeepsNoGenerationOfAnotherRun) {
  OpenSession before(bundle.handle), session(bundle.handle);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(mebp_session_save_state(before.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  EXPECT_TRUE(std::filesystem::exists(folder + "/state.previous.bin"));
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  EXPECT_FALSE(std::filesystem::exists(folder + "/state.previous.bin"));
}

TEST_F(StateTest, RefusesAnotherVersion) {
  OpenSession session(bundle.handle), fresh(bundle.handle);
  uint64_t steps;
  EXPECT_EQ(mebp_state_steps(folder.c_str(), &steps, nullptr), MEBP_NOT_FOUND);
  std::filesystem::create_directories(folder);
  // The versions before had their checksums elsewhere, over different bytes.
  std::string path = folder + "/state.bin";
  for (auto [version, covered, place] : {std::tuple{'\1', 100, 100}, std::tuple{'\2', 128, 16}}) {
    std::string older(200, '\0');
    older.replace(0, 8, "MEBPSTAT");
    older[8] = version;
    uint32_t checksum = format::crc32(older.data(), covered);
    std::memcpy(&older[place], &checksum, sizeof(checksum));
    writeWhole(path, older);
    EXPECT_EQ(refusal(fresh.handle, MEBP_INCOMPATIBLE),
              path +
                  ": was saved by an older mebp, in a format that is no longer read; finish the run with that one or "
                  "start over");
    older[20] ^= 1;
    writeWhole(path, older);
    EXPECT_EQ(refusal(fresh.handle, MEBP_CORRUPT), path + ": is not a saved state; choose another folder");
  }
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  std::string newer = readWhole(path);
  replaceIn(newer, R"("version":"3.0")", R"("version":"4.0")");
  writeWhole(path, newer);
  EXPECT_EQ(refusal(fresh.handle, MEBP_INCOMPATIBLE),
            path + ": has format version 4.0, newer than this runtime's 3.0; use a newer runtime");
}

// The saved family runs again, whichever this session would have: its rounding is part of the run.
TEST_F(StateTest, GoesOnWithTheKernelsThatItWasSavedWith) {
  mebp_session_options naive = defaultOptions();
  naive.reference_kernels = true;
  OpenSession through(bundle.handle, naive), first(bundle.handle, naive);
  std::string own;
  for (uint64_t step = 0; step < 2; ++step) {
    stepOf(through.handle, step);
    stepOf(first.handle, step);
  }
  ASSERT_EQ(mebp_session_save_state(first.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  OpenSession second(bundle.handle);
  own = mebp_session_kernels(second.handle);
  ASSERT_NE(own, "reference");
  ASSERT_EQ(mebp_session_load_state(second.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  EXPECT_STREQ(mebp_session_kernels(second.handle), "reference");
  EXPECT_EQ(mebp_session_notes(second.handle),
            "the state was saved with reference kernels, so these run and not the " + own + " ones");
  for (uint64_t step = 2; step < 5; ++step)
    EXPECT_EQ(stepOf(second.handle, step), stepOf(through.handle, step));
  EXPECT_EQ(trainablesOf(bundle.handle, second.handle), trainablesOf(bundle.handle, through.handle));

  // One that no machine has.
  std::string path = folder + "/state.bin", content = readWhole(path);
  replaceIn(content, R"("kernels":"reference")",
            R"("kernels":"avx 1024")"
            " ");
  writeWhole(path, content);
  OpenSession third(bundle.handle);
  ASSERT_EQ(mebp_session_load_state(third.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  EXPECT_EQ(mebp_session_kernels(third.handle), own);
  EXPECT_EQ(mebp_session_notes(third.handle),
            "the state was saved with avx?1024 kernels, which cannot run here; with the " + own +
                " ones results differ by rounding");
}

// From so many on, the number of the next would leave its type.
TEST_F(StateTest, RefusesMoreStepsThanARunCanTake) {
  OpenSession session(bundle.handle);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  const std::string path = folder + "/state.bin", saved = readWhole(path);
  for (const char *steps : {"9007199254740993", "9223372036854775807", "18446744073709551616", "-1", "1e3", ""}) {
    std::string content = saved;
    replaceIn(content, R"("steps":"0")", R"("steps":")" + std::string(steps) + '"');
    writeWhole(path, content);
    EXPECT_EQ(refusal(session.handle, MEBP_CORRUPT),
              path + ": does not say of which run it is; the file is damaged, start over")
        << steps;
  }
  std::string content = saved;
  replaceIn(content, R"("steps":"0")", R"("steps":"9007199254740992")");
  writeWhole(path, content);
  EXPECT_EQ(mebp_session_load_state(session.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
}

// As every text that a session gives: whoever has it may read it for as long as there is the session.
TEST_F(StateTest, KeepsTheNotesThatItHasGiven) {
  OpenSession session(bundle.handle), fresh(bundle.handle);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  std::filesystem::remove(folder + "/state.bin");
  ASSERT_EQ(mebp_session_load_state(fresh.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  const char *given = mebp_session_notes(fresh.handle);
  const std::string said = given;
  ASSERT_NE(said.find("is missing"), std::string::npos);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_load_state(fresh.handle, folder.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  EXPECT_STREQ(mebp_session_notes(fresh.handle), "");
  EXPECT_EQ(given, said);
  ASSERT_EQ(mebp_session_pause(fresh.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  EXPECT_EQ(given, said);
  EXPECT_STREQ(mebp_session_kernels(fresh.handle), "");
  EXPECT_STREQ(mebp_session_notes(fresh.handle), "");
}

TEST_F(StateTest, RefusesAnotherRun) {
  OpenSession session(bundle.handle);
  ASSERT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  mebp_session_options options = defaultOptions();
  options.optimizer = MEBP_SGD;
  OpenSession sgd(bundle.handle, options);
  EXPECT_NE(refusal(sgd.handle, MEBP_INCOMPATIBLE).find("with another optimizer, adamw;"), std::string::npos);
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
  EXPECT_NE(refusal(reference.handle, MEBP_INCOMPATIBLE).find("the session was created with the reference ones"),
            std::string::npos);

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
  mebp_error error;
  {
    FullDisk full(200);
    EXPECT_EQ(mebp_session_save_state(session.handle, folder.c_str(), nullptr, 0, &error), MEBP_IO);
  }
  EXPECT_EQ(error.message, folder + "/state.bin: cannot write: File too large");
  EXPECT_EQ(readWhole(folder + "/state.bin"), before);
  EXPECT_FALSE(std::filesystem::exists(folder + "/state.bin.new"));
}

} // namespace
