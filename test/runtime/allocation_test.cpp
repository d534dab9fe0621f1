// SPDX-License-Identifier: Apache-2.0
//
// Counts every call of malloc and its kin while a step runs; operator new ends in malloc, too.
#include <atomic>
#include <cstdlib>

#include "support/handles.h"

using namespace mebp::test;

static std::atomic<bool> counting{false};
static std::atomic<int> allocations{0};

extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);

static void count() {
  if (counting.load(std::memory_order_relaxed))
    ++allocations;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
extern "C" void *calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}
extern "C" void *realloc(void *block, size_t size) {
  count();
  return __libc_realloc(block, size);
}
#endif

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
    counting = true;
    for (int i = 0; i < 2; ++i) {
      mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error);
      mebp_session_step(session.handle, ids.data(), ids.data(), 1, 3, &result, &error);
      mebp_session_step_batches(session.handle, batches, 2, &result, &error);
      mebp_session_gradients(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error);
      mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, &error);
      mebp_session_logits(session.handle, ids.data(), 2, 5, 0, 5, logits.data(), &error);
    }
    counting = false;
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(mebp_session_steps(session.handle), 6u);
  }
}

} // namespace
