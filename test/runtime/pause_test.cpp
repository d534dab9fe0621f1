// SPDX-License-Identifier: Apache-2.0
//
// A session that gives its memory back and goes on with the same bits.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <sys/mman.h>

#include "format/optimizers.h"
#include "support/generating_model.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

class PauseTest : public testing::Test {
protected:
  void TearDown() override { std::filesystem::remove_all(folder); }

  double stepOf(mebp_session *session, uint64_t seed) {
    std::vector<int32_t> ids = tinyTokens(10, seed);
    mebp_step_result result;
    mebp_step_result_init(&result);
    EXPECT_EQ(mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    return result.loss;
  }
  void pause(mebp_session *session) {
    mebp_error error = {};
    ASSERT_EQ(mebp_session_pause(session, folder.c_str(), "user", 4, &error), MEBP_OK) << error.message;
    EXPECT_TRUE(mebp_session_is_paused(session));
  }
  void resume(mebp_session *session) {
    mebp_error error = {};
    ASSERT_EQ(mebp_session_resume(session, &error), MEBP_OK) << error.message;
    EXPECT_FALSE(mebp_session_is_paused(session));
  }

  BundleFolder files{tinyBundle({})};
  OpenBundle bundle{files.path()};
  std::string folder = scratchPath();
};

TEST_F(PauseTest, ContinuesBitwise) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (traits.projects)
      continue; // its bundles are others: test/e2e/test_pausing.py
    SCOPED_TRACE(traits.name);
    mebp_session_options options = defaultOptions();
    options.optimizer = static_cast<mebp_optimizer>(traits.number);
    OpenSession through(bundle.handle, options), paused(bundle.handle, options);
    mebp_session_set_learning_rate(through.handle, 1e-3, nullptr);
    mebp_session_set_learning_rate(paused.handle, 1e-3, nullptr);
    for (uint64_t step = 0; step < 4; ++step) {
      EXPECT_EQ(stepOf(paused.handle, step), stepOf(through.handle, step));
      pause(paused.handle);
      EXPECT_EQ(mebp_session_steps(paused.handle), step + 1);
      resume(paused.handle);
    }
    EXPECT_EQ(trainablesOf(bundle.handle, paused.handle), trainablesOf(bundle.handle, through.handle));
    std::filesystem::remove_all(folder);
  }
}

// The caller's memory is in nobody's use meanwhile, and the folder's name need not stay.
TEST_F(PauseTest, TakesTheCallersMemoryAgain) {
  mebp_session_options options = defaultOptions();
  std::string spill = "/var/tmp";
  options.spill_folder = spill.c_str();
  options.memory_bytes = mebp_session_memory_bytes(bundle.handle, &options);
  options.memory = ::mmap(nullptr, options.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  {
    OpenSession session(bundle.handle, options);
    spill = "/nowhere";
    stepOf(session.handle, 0);
    auto before = trainablesOf(bundle.handle, session.handle);
    pause(session.handle);
    std::memset(options.memory, 0xA5, options.memory_bytes);
    resume(session.handle);
    EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  }
  ::munmap(options.memory, options.memory_bytes);
}

struct Given {
  uint64_t bytes = 0, taken = 0;
};

TEST_F(PauseTest, GivesTheAllocatorItsMemoryBack) {
  Given given;
  mebp_session_options options = defaultOptions();
  options.allocator.user = &given;
  options.allocator.allocate = [](void *user, uint64_t bytes, uint64_t alignment) {
    static_cast<Given *>(user)->bytes += bytes;
    ++static_cast<Given *>(user)->taken;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  options.allocator.release = [](void *user, void *memory, uint64_t bytes) {
    static_cast<Given *>(user)->bytes -= bytes;
    std::free(memory);
  };
  OpenSession session(bundle.handle, options);
  EXPECT_GT(given.bytes, 0u);
  pause(session.handle);
  EXPECT_EQ(given.bytes, 0u);
  resume(session.handle);
  EXPECT_EQ(given.taken, 2u);
}

TEST_F(PauseTest, RefusesWhatNeedsMemory) {
  OpenSession session(bundle.handle);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_resume(session.handle, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the session is not paused; it has its memory");
  EXPECT_FALSE(mebp_session_is_paused(nullptr));
  stepOf(session.handle, 0);
  pause(session.handle);
  std::vector<int32_t> ids = tinyTokens(10, 0);
  mebp_step_result result;
  mebp_step_result_init(&result);
  const char *expected = "the session is paused and has no memory; call mebp_session_resume first";
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_PAUSED);
  EXPECT_STREQ(error.message, expected);
  EXPECT_EQ(mebp_session_pause(session.handle, folder.c_str(), nullptr, 0, &error), MEBP_PAUSED);
  EXPECT_STREQ(error.message, expected);
  EXPECT_STREQ(mebp_session_kernels(session.handle), ""); // never NULL, which packages made text of
  EXPECT_STREQ(mebp_session_notes(session.handle), "");
  EXPECT_FALSE(mebp_session_is_poisoned(session.handle));
  mebp_session_cancel(session.handle);
  mebp_session_clear_cancel(session.handle);

  // Its state is not there: it stays paused until it is.
  std::filesystem::rename(folder, folder + ".away");
  EXPECT_EQ(mebp_session_resume(session.handle, &error), MEBP_NOT_FOUND);
  EXPECT_TRUE(mebp_session_is_paused(session.handle));
  std::filesystem::rename(folder + ".away", folder);
  resume(session.handle);
  EXPECT_EQ(mebp_session_steps(session.handle), 1u);
}

TEST_F(PauseTest, RefusesTheStateOfAnotherStep) {
  OpenSession session(bundle.handle), other(bundle.handle);
  stepOf(session.handle, 0);
  pause(session.handle);
  ASSERT_EQ(mebp_session_save_state(other.handle, folder.c_str(), nullptr, 0, nullptr), MEBP_OK);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_resume(session.handle, &error), MEBP_INCOMPATIBLE);
  EXPECT_EQ(error.message,
            folder + ": has the state of step 0, and the session was paused after step 1; put that state back");
}

TEST_F(PauseTest, WhatCannotBeSavedIsNotPaused) {
  OpenSession session(bundle.handle);
  std::ofstream(folder) << "a file";
  mebp_error error = {};
  EXPECT_EQ(mebp_session_pause(session.handle, folder.c_str(), nullptr, 0, &error), MEBP_IO) << error.message;
  EXPECT_FALSE(mebp_session_is_paused(session.handle));
  stepOf(session.handle, 0);
}

TEST_F(PauseTest, RefusesATrace) {
  mebp_session_options options = defaultOptions();
  std::string trace = scratchPath();
  options.trace_file = trace.c_str();
  OpenSession session(bundle.handle, options);
  mebp_error error = {};
  EXPECT_EQ(mebp_session_pause(session.handle, folder.c_str(), nullptr, 0, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "a session with trace_file cannot be paused: its trace would begin again; create it without");
  std::filesystem::remove(trace);
}

} // namespace
