// SPDX-License-Identifier: Apache-2.0
//
// A device that is lost in the middle of a step: the step did not happen, and the next one is as if it had never been.
#include <cstdlib>

#include <dlfcn.h>

#include "support/handles.h"

using namespace mebp::test;

namespace {

void loseAfter(int runs) {
  static auto lose = reinterpret_cast<void (*)(int)>(::dlsym(::dlopen(DEVICE_LIBRARY, RTLD_LAZY), "lose_device_after"));
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

// What a run needs is refused before it begins: more than the device has, or than others have left of it.
TEST(SmallDevice, RefusesWhatItHasNoRoomFor) {
  auto shrink = reinterpret_cast<void (*)(uint64_t)>(::dlsym(::dlopen(DEVICE_LIBRARY, RTLD_LAZY), "shrink_device_to"));
  ASSERT_NE(shrink, nullptr);
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1); // other tests have a device of that name at the same time
  mebp_session_options options = defaultOptions();
  options.backend = MEBP_MLX;
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  ASSERT_EQ(mebp_bundle_get_info(bundle.handle, &info, nullptr), MEBP_OK);
  const uint64_t least = info.weights_bytes + mebp_session_memory_bytes(bundle.handle, &options);
  mebp_session *none = nullptr;
  mebp_error error = {};
  shrink(least - 1);
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &none, &error), MEBP_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(error.message).find("this run needs at least "), 0u) << error.message;
  shrink(2 * least - 1);
  {
    OpenSession first(bundle.handle, options);
    EXPECT_EQ(mebp_session_create(bundle.handle, &options, &none, &error), MEBP_OUT_OF_MEMORY);
    EXPECT_NE(std::string(error.message).find("of which other runs have planned "), std::string::npos) << error.message;
  }
  OpenSession after(bundle.handle, options);
  EXPECT_EQ(after.code, MEBP_OK);
  shrink(1 << 30);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LostDevice, testing::Values(MEBP_SGD, MEBP_ADAMW));

} // namespace
