// SPDX-License-Identifier: Apache-2.0
//
// Clipping by computing gradients twice, against clipping those that are kept.
#include "format/optimizers.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

double sum(void *calls, const float *, uint32_t batch, uint32_t sequence, float *coefficients) {
  ++*static_cast<int *>(calls);
  for (uint32_t i = 0; i < batch * sequence; ++i)
    coefficients[i] = -0.5f;
  return 1;
}

class ClipRecompute : public testing::Test {
protected:
  mebp_session_options options(bool recompute, double clip = 0.05) {
    mebp_session_options made = defaultOptions();
    made.return_gradients = false;
    made.learning_rate = 1e-2;
    made.clip = clip;
    made.clip_recompute = recompute;
    return made;
  }
  mebp_step_result stepOf(mebp_session *session, uint64_t seed) {
    std::vector<int32_t> ids = tinyTokens(10, seed);
    mebp_step_result result;
    mebp_step_result_init(&result);
    mebp_error error = {};
    EXPECT_EQ(mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK) << error.message;
    return result;
  }
  std::string refusal(const mebp_session_options &given) {
    mebp_error error = {};
    mebp_session *made = nullptr;
    EXPECT_EQ(mebp_session_create(bundle.handle, &given, &made, &error), MEBP_INVALID_ARGUMENT);
    EXPECT_EQ(made, nullptr);
    return error.message;
  }

  BundleFolder files{tinyBundle({})};
  OpenBundle bundle{files.path()};
};

TEST_F(ClipRecompute, GivesTheBitsOfKeptGradients) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (traits.projects || traits.forwardOnly)
      continue; // test/e2e/test_clip_recompute.py
    SCOPED_TRACE(traits.name);
    mebp_session_options kept = options(false), twice = options(true), unclipped = options(false, 0);
    for (mebp_session_options *each : {&kept, &twice, &unclipped})
      each->optimizer = static_cast<mebp_optimizer>(traits.number);
    EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &twice), mebp_session_memory_bytes(bundle.handle, &unclipped));
    EXPECT_LT(mebp_session_memory_bytes(bundle.handle, &twice), mebp_session_memory_bytes(bundle.handle, &kept));
    OpenSession first(bundle.handle, kept), second(bundle.handle, twice);
    for (uint64_t step = 0; step < 4; ++step) {
      mebp_step_result one = stepOf(first.handle, step), other = stepOf(second.handle, step);
      EXPECT_EQ(one.loss, other.loss);
      EXPECT_EQ(one.grad_norm, other.grad_norm);
      EXPECT_GT(one.grad_norm, kept.clip); // it does clip
    }
    EXPECT_EQ(trainablesOf(bundle.handle, first.handle), trainablesOf(bundle.handle, second.handle));
  }
}

TEST_F(ClipRecompute, SumsOverMicroBatchesAreThereAnyway) {
  mebp_session_options kept = options(false), twice = options(true);
  kept.accumulate = twice.accumulate = true;
  OpenSession first(bundle.handle, kept), second(bundle.handle, twice);
  std::vector<int32_t> ids = tinyTokens(20, 0);
  const mebp_batch batches[] = {{ids.data(), ids.data(), 2, 5}, {ids.data() + 10, ids.data() + 10, 2, 5}};
  mebp_step_result result;
  mebp_step_result_init(&result);
  int calls = 0;
  for (mebp_session *session : {first.handle, second.handle})
    EXPECT_EQ(mebp_session_objective_step(session, batches, 2, sum, &calls, &result, nullptr), MEBP_OK);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(trainablesOf(bundle.handle, first.handle), trainablesOf(bundle.handle, second.handle));
}

TEST_F(ClipRecompute, AsksAnObjectiveTwice) {
  OpenSession session(bundle.handle, options(true));
  std::vector<int32_t> ids = tinyTokens(10, 0);
  const mebp_batch one = {ids.data(), ids.data(), 2, 5};
  mebp_step_result result;
  mebp_step_result_init(&result);
  int calls = 0;
  EXPECT_EQ(mebp_session_objective_step(session.handle, &one, 1, sum, &calls, &result, nullptr), MEBP_OK);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(result.loss, 1);
}

TEST_F(ClipRecompute, RefusesWhatMeansNothing) {
  EXPECT_EQ(refusal(options(true, 0)), "clip_recompute says how to clip, and clip is 0; give the norm to clip to");
  mebp_session_options mezo = options(true);
  mezo.optimizer = MEBP_MEZO;
  EXPECT_EQ(refusal(mezo), "mezo takes losses and no gradient that could be clipped; leave out clip_recompute");
}

} // namespace
