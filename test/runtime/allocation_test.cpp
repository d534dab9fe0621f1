// SPDX-License-Identifier: Apache-2.0
//
// Memory while a session works: a step takes none, and a system that has none left gets a code, not an abort.
#include <filesystem>
#include <functional>

#include "support/allocations.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

TEST(Allocation, NoneWithinAStep) {
  for (uint32_t threads : {1u, 2u}) {
    TinyOptions tiny;
    tiny.layers = 4; // so that there is something to spill
    tiny.chunk = 2;
    tiny.sharedAdapters = true;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    mebp_session_options options = defaultOptions();
    options.threads = threads;
    options.accumulate = true;
    options.clip = 0.1;
    options.resident_limit = 1 << 20;
    options.spill_folder = ".";
    options.trace_file = "/dev/null";
    options.state_in_file = true;
    OpenSession session(bundle.handle, options);
    std::vector<int32_t> ids = tinyTokens(10);
    std::vector<float> logits(10 * tinyVocabulary);
    const mebp_batch batches[] = {{ids.data(), ids.data(), 2, 5}, {ids.data(), ids.data(), 1, 3}};
    mebp_step_result result;
    mebp_error error;
    double loss;
    allocations = 0;
    countsAllocations = true;
    for (int i = 0; i < 2; ++i) {
      mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error);
      mebp_session_step(session.handle, ids.data(), ids.data(), 1, 3, &result, &error);
      mebp_session_step_batches(session.handle, batches, 2, &result, &error);
      mebp_session_gradients(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error);
      mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error);
      mebp_session_logits(session.handle, ids.data(), 2, 5, 0, 5, logits.data(), &error);
    }
    countsAllocations = false;
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(mebp_session_steps(session.handle), 6u);
  }
}

// Runs `body`, which gives the code of the call that failed, with each of its allocations failing in turn: that one
// alone, or all from then on. Afterwards the same is done undisturbed, and has to succeed.
void failEachAllocation(const std::function<mebp_code(mebp_error &error)> &body) {
  if (!followsAllocations)
    GTEST_SKIP() << "a sanitizer has its own malloc";
  for (bool all : {false, true}) {
    int failed = 0;
    for (int number = 0;; ++number) {
      mebp_error error = {};
      allFailThen = all;
      allocationsLeft = number;
      mebp_code code = body(error);
      const bool wasReached = allocationsLeft < (all ? 1 : 0);
      allocationsLeft = -1;
      if (!wasReached)
        break;
      ASSERT_TRUE(code == MEBP_OK || code == MEBP_OUT_OF_MEMORY) << code << " " << error.message << " at " << number;
      failed += code != MEBP_OK;
      ASSERT_EQ(code == MEBP_OK, error.message[0] == 0) << number;
    }
    EXPECT_GT(failed, 0) << all;
    mebp_error error = {};
    EXPECT_EQ(body(error), MEBP_OK) << error.message;
  }
}

class OutOfMemory : public testing::Test {
protected:
  BundleFolder folder{tinyBundle({})};
  OpenBundle bundle{folder.path()};
  mebp_session_options options = defaultOptions();
  std::vector<int32_t> ids = tinyTokens(10);
};

TEST_F(OutOfMemory, IsACodeWhereABundleIsOpened) {
  failEachAllocation([&](mebp_error &error) {
    mebp_bundle *opened = nullptr;
    mebp_code code = mebp_bundle_open(folder.path().c_str(), &opened, &error);
    EXPECT_EQ(code == MEBP_OK, opened != nullptr);
    mebp_bundle_close(opened);
    return code;
  });
}

TEST_F(OutOfMemory, IsACodeWhereASessionIsCreated) {
  options.threads = 2;
  options.trace_file = "/dev/null";
  options.spill_folder = ".";
  options.state_in_file = true;
  failEachAllocation([&](mebp_error &error) {
    mebp_session *created = nullptr;
    mebp_code code = mebp_session_create(bundle.handle, &options, &created, &error);
    EXPECT_EQ(code == MEBP_OK, created != nullptr);
    mebp_session_destroy(created);
    return code;
  });
}

TEST_F(OutOfMemory, IsACodeWhereAStateIsSavedAndLoaded) {
  OpenSession session(bundle.handle, options);
  const std::string state = scratchPath();
  failEachAllocation(
      [&](mebp_error &error) { return mebp_session_save_state(session.handle, state.c_str(), "user", 4, &error); });
  failEachAllocation([&](mebp_error &error) {
    char user[4];
    uint64_t size = sizeof(user);
    return mebp_session_load_state(session.handle, state.c_str(), user, &size, &error);
  });
  std::filesystem::remove_all(state);
}

// What a refusal allocates is its message, and the refusal is worth more than that: either is right.
TEST_F(OutOfMemory, IsACodeWhereAStepIsRefused) {
  OpenSession session(bundle.handle, options);
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  ids[3] = tinyVocabulary;
  mebp_step_result result;
  for (int number = 0; number < 3 && followsAllocations; ++number) {
    mebp_error error = {};
    allocationsLeft = number;
    mebp_code code = mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error);
    allocationsLeft = -1;
    EXPECT_TRUE(code == MEBP_OUT_OF_RANGE || code == MEBP_OUT_OF_MEMORY) << code;
  }
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  ids[3] = 1;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
}

} // namespace
