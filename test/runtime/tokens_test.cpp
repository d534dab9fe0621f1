// SPDX-License-Identifier: Apache-2.0
//
// What a host's other threads do to a batch that a step was given.
#include <atomic>
#include <thread>

#include "support/handles.h"

using namespace mebp::test;

namespace {

// ThreadSanitizer would rightly call the host's two threads a race.
#ifndef __SANITIZE_THREAD__
// The ids and labels are beyond any vocabulary half of the time: a step that read them after it has checked them would
// look far outside the weights.
TEST(Tokens, AreCopiedBeforeTheyAreChecked) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.threads = 1;
  options.accumulate = true;
  OpenSession session(bundle.handle, options);
  std::vector<int32_t> ids = tinyTokens(10), labels = tinyTokens(10, 2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (int32_t value = 0; !stop; value = value ? 0 : INT32_MAX / 2) {
      __atomic_store_n(&ids[9], value, __ATOMIC_RELAXED);
      __atomic_store_n(&labels[9], value, __ATOMIC_RELAXED);
    }
  });
  const mebp_batch batches[] = {{ids.data(), labels.data(), 2, 5}, {ids.data(), labels.data(), 2, 5}};
  int taken = 0, refused = 0;
  for (int i = 0; i < 200000 && (taken < 300 || refused < 300); ++i) {
    mebp_step_result result;
    mebp_error error;
    mebp_code code = i % 2 ? mebp_session_step_batches(session.handle, batches, 2, &result, &error)
                           : mebp_session_step(session.handle, ids.data(), labels.data(), 2, 5, &result, &error);
    (code == MEBP_OK ? taken : refused) += 1;
    EXPECT_TRUE(code == MEBP_OK || code == MEBP_OUT_OF_RANGE) << code;
  }
  stop = true;
  other.join();
  EXPECT_TRUE(taken && refused) << taken << " taken, " << refused << " refused";
}
#endif

} // namespace
