// SPDX-License-Identifier: Apache-2.0
//
// mebp_session_cancel: from another thread, from a signal's handler, and what a cancelled call leaves.
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <sys/time.h>

#include "support/handles.h"

using namespace mebp::test;

namespace {

mebp_session *signalled = nullptr;

class CancelTest : public testing::Test {
protected:
  // Long enough that requests meet it at many places.
  static TinyOptions manyLayers() {
    TinyOptions tiny;
    tiny.layers = 60;
    tiny.chunk = 1;
    return tiny;
  }

  mebp_code step(mebp_session *session) {
    return mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, &error);
  }

  BundleFolder folder{tinyBundle(manyLayers())};
  OpenBundle bundle{folder.path()};
  std::vector<int32_t> ids = tinyTokens(10);
  mebp_step_result result;
  mebp_error error = {};
};

TEST_F(CancelTest, EndsTheNextCallWhereNoneRuns) {
  OpenSession session(bundle.handle);
  mebp_session *of = session.handle;
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, of);
  double loss = 7;
  std::vector<float> logits(2 * tinyVocabulary);
  const std::function<mebp_code()> calls[] = {
      [&] { return step(of); }, [&] { return mebp_session_loss(of, ids.data(), ids.data(), 2, 5, &loss, &error); },
      [&] { return mebp_session_gradients(of, ids.data(), ids.data(), 2, 5, &loss, &error); },
      [&] { return mebp_session_logits(of, ids.data(), 2, 5, 4, 1, logits.data(), &error); }};
  for (const std::function<mebp_code()> &call : calls) {
    mebp_session_cancel(of);
    EXPECT_EQ(call(), MEBP_CANCELLED);
    EXPECT_STREQ(error.message, "the call was cancelled; nothing has changed");
    EXPECT_EQ(loss, 7);
  }
  EXPECT_EQ(mebp_session_steps(of), 0u);
  EXPECT_EQ(trainablesOf(bundle.handle, of), before);
  for (const std::function<mebp_code()> &call : calls)
    EXPECT_EQ(call(), MEBP_OK) << error.message; // the request was for one call
  mebp_session_cancel(nullptr);
}

TEST_F(CancelTest, WaitsBehindACallThatIsRefused) {
  OpenSession session(bundle.handle);
  mebp_session_cancel(session.handle);
  EXPECT_EQ(mebp_session_step(session.handle, nullptr, ids.data(), 2, 5, &result, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 99, &result, &error), MEBP_OUT_OF_RANGE);
  EXPECT_EQ(step(session.handle), MEBP_CANCELLED);
  EXPECT_EQ(step(session.handle), MEBP_OK) << error.message;
}

TEST_F(CancelTest, EndsNothingOnceItIsTakenBack) {
  OpenSession session(bundle.handle);
  mebp_session_cancel(session.handle);
  mebp_session_cancel(session.handle);
  mebp_session_clear_cancel(session.handle);
  EXPECT_EQ(step(session.handle), MEBP_OK) << error.message;
  mebp_session_clear_cancel(session.handle); // where there is none
  mebp_session_cancel(session.handle);
  EXPECT_EQ(step(session.handle), MEBP_CANCELLED); // taking back is for what was, not for what comes
  mebp_session_clear_cancel(nullptr);
}

// The order that mebp.h gives, with a request at a moment of its own in each run: no run takes a step after its end was
// asked for, but the one that it may be in, and none is ended by the request of the run before.
TEST_F(CancelTest, EndsEachRunAndNoOther) {
  mebp_session_options options = defaultOptions();
  options.return_gradients = false; // steps that are finished although they are cancelled, too
  OpenSession session(bundle.handle, options);
  ASSERT_EQ(step(session.handle), MEBP_OK) << error.message;
  const auto length = std::chrono::duration<double>(result.seconds);
  constexpr int runs = 40, mostSteps = 1000;
  for (int run = 0; run < runs; ++run) {
    std::atomic<bool> ended{false};
    std::atomic<uint64_t> stepsAtEnd{0};
    std::thread ender([&, run] {
      std::this_thread::sleep_for(length * 3 * run / runs);
      ended = true;
      mebp_session_cancel(session.handle);
      stepsAtEnd = mebp_session_steps(session.handle);
    });
    int steps = 0;
    for (; steps < mostSteps; ++steps) {
      mebp_session_clear_cancel(session.handle);
      if (ended)
        break;
      const mebp_code code = step(session.handle);
      if (code == MEBP_CANCELLED)
        EXPECT_TRUE(ended) << "run " << run << " was ended by the request of another";
      else
        EXPECT_EQ(code, MEBP_OK) << error.message;
    }
    ender.join();
    EXPECT_LT(steps, mostSteps);
    EXPECT_LE(mebp_session_steps(session.handle), stepsAtEnd + 1);
  }
}

// Requests at many moments of many steps: each is made as a whole, or not at all.
void cancelSteps(mebp_bundle *bundle, const mebp_session_options &options, const std::vector<int32_t> &ids) {
  OpenSession cancelled(bundle, options), whole(bundle, options);
  mebp_step_result result;
  ASSERT_EQ(mebp_session_step(cancelled.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
  const auto length = std::chrono::duration<double>(result.seconds);
  constexpr int attempts = 60;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    std::thread canceller([&, attempt] {
      std::this_thread::sleep_for(length * attempt / attempts);
      mebp_session_cancel(cancelled.handle);
    });
    mebp_code code = mebp_session_step(cancelled.handle, ids.data(), ids.data(), 2, 5, &result, nullptr);
    canceller.join();
    EXPECT_TRUE(code == MEBP_OK || code == MEBP_CANCELLED) << code;
  }
  mebp_code settled = mebp_session_step(cancelled.handle, ids.data(), ids.data(), 2, 5, &result, nullptr);
  EXPECT_TRUE(settled == MEBP_OK || settled == MEBP_CANCELLED) << settled;
  const uint64_t steps = mebp_session_steps(cancelled.handle);
  EXPECT_LT(steps, static_cast<uint64_t>(attempts) + 2); // some were cancelled
  while (mebp_session_steps(whole.handle) < steps)
    ASSERT_EQ(mebp_session_step(whole.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle, cancelled.handle), trainablesOf(bundle, whole.handle));
}

TEST_F(CancelTest, LeavesNoStepHalfMade) {
  mebp_session_options options = defaultOptions();
  cancelSteps(bundle.handle, options, ids); // gradients are kept: it is left anywhere before the update
  options.return_gradients = false;
  cancelSteps(bundle.handle, options, ids); // applied at once: it is left before the first
}

// MeZO moves parameters and moves them back.
TEST_F(CancelTest, MovesMezosParametersBack) {
  mebp_session_options options = defaultOptions();
  options.optimizer = MEBP_MEZO;
  options.return_gradients = false;
  OpenSession session(bundle.handle, options);
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  mebp_session_cancel(session.handle);
  EXPECT_EQ(step(session.handle), MEBP_CANCELLED);
  const std::vector<std::vector<float>> after = trainablesOf(bundle.handle, session.handle);
  for (size_t i = 0; i < before.size(); ++i)
    for (size_t j = 0; j < before[i].size(); ++j)
      EXPECT_NEAR(after[i][j], before[i][j], 1e-7);
}

TEST_F(CancelTest, MayComeFromASignalsHandler) {
  OpenSession session(bundle.handle);
  signalled = session.handle;
  struct sigaction action = {}, old = {};
  action.sa_handler = [](int) { mebp_session_cancel(signalled); };
  ASSERT_EQ(::sigaction(SIGALRM, &action, &old), 0);
  const itimerval soon = {{0, 0}, {0, 1000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
  mebp_code code = MEBP_OK;
  while (code == MEBP_OK)
    code = step(session.handle);
  EXPECT_EQ(code, MEBP_CANCELLED);
  ::sigaction(SIGALRM, &old, nullptr);
}

} // namespace
