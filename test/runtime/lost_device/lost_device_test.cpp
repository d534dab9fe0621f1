// SPDX-License-Identifier: Apache-2.0
//
// A device that is lost in the middle of a step: the step did not happen, and the next one is as if it had never been.
#include <dlfcn.h>

#include "support/handles.h"

using namespace mebp::test;

namespace {

void loseAfter(int runs) {
  static auto lose = reinterpret_cast<void (*)(int)>(::dlsym(::dlopen(DEVICE, RTLD_LAZY), "lose_device_after"));
  ASSERT_NE(lose, nullptr);
  lose(runs);
}

class LostDevice : public testing::TestWithParam<mebp_optimizer> {
protected:
  LostDevice() : folder(tinyBundle({})), bundle(folder.path()) {}
  mebp_session_options options() const {
    mebp_session_options options = defaultOptions();
    options.backend = MEBP_MLX;
    options.optimizer = GetParam();
    options.learning_rate = 0.05;
    options.return_gradients = false;
    return options;
  }
  mebp_code step(mebp_session *session) {
    mebp_step_result result;
    mebp_step_result_init(&result);
    return mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, &error);
  }

  BundleFolder folder;
  OpenBundle bundle;
  std::vector<int32_t> ids = tinyTokens(10, 3);
  mebp_error error = {};
};

TEST_P(LostDevice, LeavesTheStateAsItWas) {
  OpenSession lost(bundle.handle, options()), other(bundle.handle, options());
  ASSERT_EQ(lost.code, MEBP_OK) << lost.error.message;
  loseAfter(-1);
  ASSERT_EQ(step(lost.handle), MEBP_OK) << error.message;
  ASSERT_EQ(step(other.handle), MEBP_OK);
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, lost.handle);
  int runs = 0;
  for (;; ++runs) {
    loseAfter(runs);
    const mebp_code code = step(lost.handle);
    loseAfter(-1);
    if (code == MEBP_OK)
      break;
    EXPECT_EQ(code, MEBP_IO);
    EXPECT_STREQ(error.message, "the device is lost; the step did not happen, and the session is as it was before");
    EXPECT_EQ(trainablesOf(bundle.handle, lost.handle), before) << "after " << runs << " runs";
    EXPECT_FALSE(mebp_session_is_poisoned(lost.handle));
    EXPECT_EQ(mebp_session_steps(lost.handle), 1u);
  }
  EXPECT_GT(runs, 4) << "forwards, the objective and backwards";
  ASSERT_EQ(step(other.handle), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle.handle, lost.handle), trainablesOf(bundle.handle, other.handle));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LostDevice, testing::Values(MEBP_SGD, MEBP_ADAMW));

} // namespace
