// SPDX-License-Identifier: Apache-2.0
//
// What a device takes stays what it is, however many steps there are.
#include "agreement.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

TEST(DeviceMemory, IsFlatOverTwoHundredSteps) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.backend = numberUnderTest;
  OpenSession session(bundle.handle, options);
  ASSERT_EQ(session.code, MEBP_OK);
  const std::vector<int32_t> ids = tinyTokens(10);
  constexpr int warm = 20, steps = 200;
  constexpr uint64_t allocatorsOwn = 128 << 10; // what malloc asks the system for at once
  uint64_t warmed = 0;
  for (int step = 1; step <= steps; ++step) {
    mebp_step_result result;
    mebp_step_result_init(&result);
    mebp_error error;
    ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK)
        << error.message;
    if (step == warm)
      warmed = result.peak_bytes;
    if (step == steps) {
      std::printf("%llu bytes after %d steps, %lld more after %d\n", static_cast<unsigned long long>(warmed), warm,
                  static_cast<long long>(result.peak_bytes - warmed), steps);
      EXPECT_LE(result.peak_bytes, warmed + allocatorsOwn);
    }
  }
}

} // namespace
