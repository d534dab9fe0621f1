// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/api/handle.h"
#include "support/handles.h"
#include "support/read_calls.h"

using namespace mebp;
using namespace mebp::test;

namespace {

std::vector<int32_t> someIgnored(std::vector<int32_t> labels) {
  for (size_t i = 0; i < labels.size(); i += 3)
    labels[i] = -100;
  return labels;
}

double relativeError(const std::vector<float> &actual, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += std::pow(actual[i] - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// Loss and all gradients against the model in double, at several lengths of a step.
void checkGradients(const TinyOptions &tiny, bool referenceKernels) {
  BundleFolder folder(tinyBundle(tiny));
  OpenBundle bundle(folder.path());
  ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  mebp_session_options options = defaultOptions();
  options.reference_kernels = referenceKernels;
  OpenSession session(bundle.handle, options);
  EXPECT_EQ(std::string(mebp_session_kernels(session.handle)) == "reference", referenceKernels);
  std::vector<std::vector<float>> values = trainablesOf(bundle.handle, session.handle);
  const std::pair<uint32_t, uint32_t> shapes[] = {{2, 5}, {1, 5}, {2, 3}, {1, 2}};
  for (auto [batch, sequence] : shapes) {
    std::vector<int32_t> ids = tinyTokens(batch * sequence, batch + sequence), labels = someIgnored(ids);
    double loss = 0, lossAlone = 0;
    mebp_error error;
    ASSERT_EQ(mebp_session_gradients(session.handle, ids.data(), labels.data(), batch, sequence, &loss, &error),
              MEBP_OK)
        << error.message;
    double expected = referenceLoss(bundle.handle, tiny, values, ids, labels, batch, sequence);
    EXPECT_NEAR(loss, expected, 1e-5 * expected);
    std::vector<std::vector<float>> gradients = gradientsOf(bundle.handle, session.handle);
    for (uint32_t i = 0; i < gradients.size(); ++i) {
      std::vector<double> truth = referenceGradient(bundle.handle, tiny, values, i, ids, labels, batch, sequence);
      EXPECT_LT(relativeError(gradients[i], truth), 1e-5) << "trainable " << i << " at " << batch << " x " << sequence;
    }
    ASSERT_EQ(mebp_session_loss(session.handle, ids.data(), labels.data(), batch, sequence, &lossAlone, nullptr),
              MEBP_OK);
    EXPECT_FLOAT_EQ(lossAlone, loss);
  }
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
}

TEST(Session, GradientsAreExact) {
  checkGradients({}, false);
  checkGradients({}, true);
}

TEST(Session, GradientsAreExactInChunks) {
  for (uint32_t chunk : {1u, 2u, 3u, 5u, 100u}) {
    TinyOptions tiny;
    tiny.chunk = chunk;
    checkGradients(tiny, false);
  }
}

TEST(Session, GradientsAreExactInPlace) {
  for (uint32_t chunk : {0u, 1u, 2u, 3u, 100u}) {
    TinyOptions tiny;
    tiny.layers = 3;
    tiny.chunk = chunk;
    tiny.inPlace = true;
    checkGradients(tiny, false);
  }
}

TEST(Session, GradientsAreExactWithQuantisedWeights) {
  for (format::ElementType storage : {format::INT4, format::INT8, format::BF16}) {
    TinyOptions tiny;
    tiny.storage = storage;
    tiny.chunk = 2;
    checkGradients(tiny, false);
  }
}

TEST(Session, SumsTheGradientsOfASharedTrainable) {
  TinyOptions tiny;
  tiny.sharedAdapters = true;
  tiny.layers = 3;
  checkGradients(tiny, false);
}

// The update of a shared trainable must wait for its last block, whether gradients are kept or not.
TEST(Session, AppliesASharedTrainableOnce) {
  for (bool shared : {false, true}) {
    TinyOptions tiny;
    tiny.sharedAdapters = shared;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    mebp_session_options options = defaultOptions();
    options.optimizer = MEBP_SGD;
    options.learning_rate = 0.5;
    OpenSession keeping(bundle.handle, options);
    options.return_gradients = false;
    OpenSession applying(bundle.handle, options);
    std::vector<int32_t> ids = tinyTokens(10);
    std::vector<std::vector<float>> before = trainablesOf(bundle.handle, keeping.handle);
    double loss;
    ASSERT_EQ(mebp_session_gradients(keeping.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    std::vector<std::vector<float>> gradients = gradientsOf(bundle.handle, keeping.handle);
    mebp_step_result result;
    ASSERT_EQ(mebp_session_step(applying.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    std::vector<std::vector<float>> after = trainablesOf(bundle.handle, applying.handle);
    double norm = 0;
    for (size_t i = 0; i < after.size(); ++i)
      for (size_t j = 0; j < after[i].size(); ++j) {
        EXPECT_FLOAT_EQ(after[i][j], before[i][j] - 0.5f * gradients[i][j]);
        norm += static_cast<double>(gradients[i][j]) * gradients[i][j];
      }
    EXPECT_FLOAT_EQ(result.grad_norm, static_cast<float>(std::sqrt(norm)));
    EXPECT_EQ(result.loss, loss);
    EXPECT_EQ(result.tokens, 8u);
    EXPECT_GT(result.peak_bytes, 0u);
    // The same update with gradients handed in.
    std::vector<const float *> pointers;
    for (const std::vector<float> &gradient : gradients)
      pointers.push_back(gradient.data());
    ASSERT_EQ(mebp_session_apply_gradients(keeping.handle, pointers.data(), nullptr), MEBP_OK);
    EXPECT_EQ(trainablesOf(bundle.handle, keeping.handle), after);
    EXPECT_EQ(mebp_session_steps(keeping.handle), 1u);
  }
}

TEST(Session, StepsLowerTheLossTheSameWithAnyThreads) {
  TinyOptions tiny;
  tiny.chunk = 2;
  BundleFolder folder(tinyBundle(tiny));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.learning_rate = 1e-2;
  OpenSession one(bundle.handle, options);
  options.threads = 3;
  OpenSession three(bundle.handle, options);
  std::vector<int32_t> ids = tinyTokens(10);
  double first = 0;
  mebp_step_result result = {}, other = {};
  for (int step = 0; step < 30; ++step) {
    ASSERT_EQ(mebp_session_step(one.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_step(three.handle, ids.data(), ids.data(), 2, 5, &other, nullptr), MEBP_OK);
    first = step == 0 ? result.loss : first;
    EXPECT_EQ(result.loss, other.loss);
  }
  EXPECT_LT(result.loss, 0.8f * first);
  EXPECT_EQ(trainablesOf(bundle.handle, one.handle), trainablesOf(bundle.handle, three.handle));
}

TEST(Session, BeginsWithTheSeedsValues) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle);
  std::vector<std::vector<float>> values = trainablesOf(bundle.handle, session.handle);
  for (float value : values[0])
    EXPECT_LE(std::abs(value), 0.5f);
  EXPECT_NE(values[0], values[2]);
  TinyOptions zero;
  zero.bound = 0;
  BundleFolder zeroFolder(tinyBundle(zero));
  OpenBundle zeroBundle(zeroFolder.path());
  OpenSession zeroSession(zeroBundle.handle);
  EXPECT_EQ(trainablesOf(zeroBundle.handle, zeroSession.handle)[1], std::vector<float>(12, 0.0f));
}

TEST(Session, GivesLogitsInRanges) {
  for (uint32_t planned : {10u, 2u, 1u}) {
    TinyOptions tiny;
    tiny.logitRows = planned;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
    OpenSession session(bundle.handle);
    std::vector<int32_t> ids = tinyTokens(10);
    std::vector<float> all(10 * tinyVocabulary), some(2 * 3 * tinyVocabulary, 0);
    mebp_error error;
    ASSERT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 0, 5, all.data(), &error), MEBP_OK)
        << error.message;
    ASSERT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 1, 3, some.data(), nullptr), MEBP_OK);
    for (uint64_t item = 0; item < 2; ++item)
      for (uint64_t row = 0; row < 3; ++row)
        for (uint64_t v = 0; v < tinyVocabulary; ++v)
          EXPECT_NEAR(some[(item * 3 + row) * tinyVocabulary + v], all[(item * 5 + 1 + row) * tinyVocabulary + v],
                      1e-6);
    // The loss of those logits is the loss.
    double total = 0;
    for (uint64_t token = 0; token < 10; ++token) {
      if (token % 5 == 4)
        continue;
      double sum = 0;
      for (uint64_t v = 0; v < tinyVocabulary; ++v)
        sum += std::exp(static_cast<double>(all[token * tinyVocabulary + v]));
      total += std::log(sum) - all[token * tinyVocabulary + static_cast<uint64_t>(ids[token + 1])];
    }
    double loss;
    ASSERT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    EXPECT_NEAR(loss, total / 8, 1e-5);
    EXPECT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 4, 2, all.data(), nullptr), MEBP_OUT_OF_RANGE);
    EXPECT_EQ(mebp_session_logits(session.handle, ids.data(), 2, 5, 0, 0, all.data(), nullptr), MEBP_OUT_OF_RANGE);
  }
}

TEST(Session, RefusesTokensByPlaceAndValue) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle);
  std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  std::vector<int32_t> ids = tinyTokens(10), labels = ids;
  mebp_step_result result;
  mebp_error error;
  auto step = [&](uint32_t batch, uint32_t sequence) {
    return mebp_session_step(session.handle, ids.data(), labels.data(), batch, sequence, &result, &error);
  };
  ids[7] = tinyVocabulary;
  EXPECT_EQ(step(2, 5), MEBP_OUT_OF_RANGE);
  EXPECT_STREQ(error.message, "token 11 at row 1, position 2 is beyond the vocabulary of 11");
  ids[7] = -1;
  EXPECT_EQ(step(2, 5), MEBP_OUT_OF_RANGE);
  ids[7] = 0;
  labels[3] = -99;
  EXPECT_EQ(step(2, 5), MEBP_OUT_OF_RANGE);
  EXPECT_NE(std::string(error.message).find("label -99 at row 0, position 3"), std::string::npos);
  labels.assign(10, -100);
  EXPECT_EQ(step(2, 5), MEBP_INVALID_ARGUMENT);
  labels[0] = labels[5] = 1; // nothing predicts a first token
  EXPECT_EQ(step(2, 5), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(step(1, 6), MEBP_OUT_OF_RANGE);
  EXPECT_EQ(step(3, 2), MEBP_OUT_OF_RANGE);
  EXPECT_EQ(step(0, 5), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(step(1, 0), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
}

TEST(Session, LeavesParametersAloneWhereTheLossIsNotFinite) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle);
  std::vector<float> values(12, NAN);
  ASSERT_EQ(mebp_session_write_trainable(session.handle, 3, values.data(), 12, nullptr), MEBP_OK);
  std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  std::vector<int32_t> ids = tinyTokens(10);
  mebp_step_result result;
  mebp_error error;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_NOT_FINITE);
  std::vector<std::vector<float>> after = trainablesOf(bundle.handle, session.handle);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(before[i], after[i]);
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
}

TEST(Session, WorksInTheCallersMemory) {
  TinyOptions tiny;
  tiny.sharedAdapters = true;
  BundleFolder folder(tinyBundle(tiny));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  OpenSession own(bundle.handle, options);
  uint64_t bytes = mebp_session_memory_bytes(bundle.handle, &options);
  constexpr unsigned char guard = 0xA5;
  std::vector<unsigned char> room(bytes + 192, guard);
  auto *memory = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(room.data()) + 127) / 64 * 64);
  options.memory = memory;
  options.memory_bytes = bytes - 1;
  mebp_session *refused = nullptr;
  mebp_error error;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &refused, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(refused, nullptr);
  options.memory_bytes = bytes;
  OpenSession given(bundle.handle, options);
  std::vector<int32_t> ids = tinyTokens(10);
  mebp_step_result result, other;
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(mebp_session_step(given.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_step(own.handle, ids.data(), ids.data(), 2, 5, &other, nullptr), MEBP_OK);
    EXPECT_EQ(result.loss, other.loss);
  }
  EXPECT_EQ(trainablesOf(bundle.handle, given.handle), trainablesOf(bundle.handle, own.handle));
  EXPECT_EQ(memory[-1], guard);
  EXPECT_EQ(memory[bytes], guard);
}

TEST(Session, LooksAtMemoryAfterEveryKernelCallIfAsked) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  std::vector<int32_t> ids = tinyTokens(10);
  auto readsOfAStep = [&](bool sample) {
    mebp_session_options options = defaultOptions();
    options.sample_memory = sample;
    OpenSession session(bundle.handle, options);
    mebp_step_result result;
    uint64_t before = readCalls();
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    EXPECT_GT(result.peak_bytes, 0u);
    return readCalls() - before;
  };
  uint64_t kernels = 0;
  for (const format::Program &program : bundle.handle->bundle.content().programs())
    for (const format::Step &step : program.steps())
      kernels += step.has_kernel();
  // A look is four reads: two files, each to its end.
  EXPECT_LT(readsOfAStep(false), 20u);
  EXPECT_GT(readsOfAStep(true), 4 * kernels);
}

TEST(Session, RefusesWhatItCannotGive) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = defaultOptions();
  options.return_gradients = false;
  OpenSession session(bundle.handle, options);
  std::vector<int32_t> ids = tinyTokens(10);
  double loss;
  float values[12];
  EXPECT_EQ(mebp_session_gradients(session.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr),
            MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_read_gradient(session.handle, 0, values, 12, nullptr), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_read_trainable(session.handle, 0, values, 11, nullptr), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_read_trainable(session.handle, 4, values, 12, nullptr), MEBP_INVALID_ARGUMENT);
  mebp_session *refused = nullptr;
  options.threads = 100000;
  EXPECT_EQ(mebp_session_create(bundle.handle, &options, &refused, nullptr), MEBP_INVALID_ARGUMENT);
}

TEST(Session, ForwardOnlyGivesTheSameLossInLessMemory) {
  for (bool inPlace : {false, true}) {
    TinyOptions tiny;
    tiny.layers = 5;
    tiny.inPlace = inPlace;
    format::Bundle content = tinyBundle(tiny);
    content.mutable_plan()->set_spill_checkpoints(true); // of which nothing is needed
    BundleFolder folder(content);
    OpenBundle bundle(folder.path());
    mebp_session_options options = defaultOptions(), forward = options;
    forward.forward_only = true;
    EXPECT_LT(mebp_session_memory_bytes(bundle.handle, &forward), mebp_session_memory_bytes(bundle.handle, &options));
    OpenSession whole(bundle.handle, options), part(bundle.handle, forward);
    std::vector<int32_t> ids = tinyTokens(10);
    double expected = 0, loss = 0;
    ASSERT_EQ(mebp_session_loss(whole.handle, ids.data(), ids.data(), 2, 5, &expected, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_loss(part.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    EXPECT_EQ(loss, expected);
    std::vector<float> logits(2 * tinyVocabulary), same = logits;
    ASSERT_EQ(mebp_session_logits(whole.handle, ids.data(), 2, 5, 4, 1, logits.data(), nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_logits(part.handle, ids.data(), 2, 5, 4, 1, same.data(), nullptr), MEBP_OK);
    EXPECT_EQ(same, logits);
    mebp_step_result result;
    mebp_error error;
    EXPECT_EQ(mebp_session_step(part.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, "the session was created with forward_only, so it cannot train");
    EXPECT_EQ(mebp_session_gradients(part.handle, ids.data(), ids.data(), 2, 5, &loss, &error), MEBP_INVALID_ARGUMENT);
    std::vector<const float *> none(10);
    EXPECT_EQ(mebp_session_apply_gradients(part.handle, none.data(), &error), MEBP_INVALID_ARGUMENT);
  }
}

} // namespace
