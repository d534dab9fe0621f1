// SPDX-License-Identifier: Apache-2.0
//
// Steps over several micro-batches, and clipping.
#include <algorithm>
#include <cmath>
#include <limits>

#include "format/random.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

using Values = std::vector<std::vector<float>>;

struct MicroBatch {
  std::vector<int32_t> ids, labels;
  uint32_t batch, sequence;
};

std::vector<mebp_batch> viewsOf(const std::vector<MicroBatch> &batches) {
  std::vector<mebp_batch> views;
  for (const MicroBatch &one : batches)
    views.push_back({one.ids.data(), one.labels.data(), one.batch, one.sequence});
  return views;
}

uint64_t countedLabels(const MicroBatch &one) {
  uint64_t count = 0;
  for (size_t i = 0; i < one.labels.size(); ++i)
    count += i % one.sequence != 0 && one.labels[i] != -100;
  return count;
}

uint32_t randomBelow(uint32_t limit, uint64_t seed, uint64_t index) {
  return static_cast<uint32_t>(format::randomBits(seed, 1, index) % limit);
}

// Micro-batches of random shapes, in each of which a random part of the labels counts, or none.
std::vector<MicroBatch> randomBatches(uint32_t number, uint64_t seed) {
  std::vector<MicroBatch> batches;
  for (uint32_t i = 0; i < number; ++i) {
    MicroBatch one;
    one.batch = 1 + randomBelow(tinyBatch, seed, 3 * i);
    one.sequence = 2 + randomBelow(tinySequence - 1, seed, 3 * i + 1);
    one.ids = one.labels = tinyTokens(one.batch * one.sequence, 100 * seed + i);
    uint32_t kept = randomBelow(4, seed, 3 * i + 2);
    for (size_t label = 0; label < one.labels.size(); ++label)
      if (randomBelow(3, seed + i, label) >= kept)
        one.labels[label] = -100;
    batches.push_back(one);
  }
  batches[0].labels = batches[0].ids;
  return batches;
}

mebp_session_options plainOptions() {
  mebp_session_options options = defaultOptions();
  options.optimizer = MEBP_SGD;
  options.learning_rate = 1;
  options.return_gradients = false;
  return options;
}

// Each way in which gradients may be held.
std::vector<mebp_session_options> allWays() {
  std::vector<mebp_session_options> ways;
  for (int way = 0; way < 8; ++way) {
    mebp_session_options options = plainOptions();
    options.return_gradients = way & 1;
    options.accumulate = way & 2;
    options.clip = way & 4 ? 1e6f : 0.0f;
    ways.push_back(options);
  }
  return ways;
}

bool gradientsAreAppliedAtOnce(const mebp_session_options &options) {
  return !options.return_gradients && !options.accumulate && options.clip == 0;
}

double relativeError(const Values &actual, const Values &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    for (size_t j = 0; j < actual[i].size(); ++j) {
      difference += std::pow(static_cast<double>(actual[i][j]) - expected[i][j], 2);
      norm += std::pow(static_cast<double>(expected[i][j]), 2);
    }
  return std::sqrt(difference / norm);
}

double normOf(const Values &values) {
  double square = 0;
  for (const std::vector<float> &tensor : values)
    for (float value : tensor)
      square += static_cast<double>(value) * value;
  return std::sqrt(square);
}

// The gradient in double of the mean over all labels that count: that of each micro-batch's own mean, weighted.
Values expectedGradient(mebp_bundle *bundle, const TinyOptions &tiny, const Values &values,
                        const std::vector<MicroBatch> &batches, double &loss) {
  double total = 0;
  loss = 0;
  std::vector<std::vector<double>> sum;
  for (const std::vector<float> &value : values)
    sum.emplace_back(value.size());
  for (const MicroBatch &one : batches) {
    auto count = static_cast<double>(countedLabels(one));
    if (count == 0)
      continue;
    total += count;
    loss += count * referenceLoss(bundle, tiny, values, one.ids, one.labels, one.batch, one.sequence);
    for (uint32_t i = 0; i < sum.size(); ++i) {
      std::vector<double> part =
          referenceGradient(bundle, tiny, values, i, one.ids, one.labels, one.batch, one.sequence);
      for (size_t j = 0; j < part.size(); ++j)
        sum[i][j] += count * part[j];
    }
  }
  loss /= total;
  Values mean;
  for (const std::vector<double> &tensor : sum) {
    mean.emplace_back();
    for (double value : tensor)
      mean.back().push_back(static_cast<float>(value / total));
  }
  return mean;
}

TEST(Accumulation, EqualsOneBatchWhateverTheTokenCounts) {
  for (bool shared : {false, true}) {
    TinyOptions tiny;
    tiny.sharedAdapters = shared;
    tiny.chunk = shared ? 2 : 0;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    mebp_session_options options = plainOptions();
    options.accumulate = options.return_gradients = true;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      OpenSession session(bundle.handle, options);
      std::vector<MicroBatch> batches = randomBatches(1 + static_cast<uint32_t>(seed % 5), seed);
      Values before = trainablesOf(bundle.handle, session.handle);
      double loss;
      Values expected = expectedGradient(bundle.handle, tiny, before, batches, loss);
      std::vector<mebp_batch> views = viewsOf(batches);
      mebp_step_result result;
      mebp_error error;
      ASSERT_EQ(
          mebp_session_step_batches(session.handle, views.data(), static_cast<uint32_t>(views.size()), &result, &error),
          MEBP_OK)
          << error.message;
      EXPECT_LT(relativeError(gradientsOf(bundle.handle, session.handle), expected), 1e-5);
      Values after = trainablesOf(bundle.handle, session.handle), update = before;
      for (size_t i = 0; i < update.size(); ++i)
        for (size_t j = 0; j < update[i].size(); ++j)
          update[i][j] -= expected[i][j];
      EXPECT_LT(relativeError(after, update), 1e-5);
      EXPECT_NEAR(result.loss, loss, 1e-5 * loss);
      EXPECT_NEAR(result.grad_norm, normOf(expected), 1e-5 * normOf(expected));
      uint64_t tokens = 0;
      for (const MicroBatch &one : batches)
        tokens += countedLabels(one);
      EXPECT_EQ(result.tokens, tokens);
      EXPECT_EQ(mebp_session_steps(session.handle), 1u);
    }
  }
}

// The same rows, padded in one batch and each at its own length.
TEST(Accumulation, EqualsThePaddedBatch) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = plainOptions();
  options.accumulate = true;
  for (auto [first, second] : {std::pair<uint32_t, uint32_t>{5, 2}, {3, 5}, {4, 4}}) {
    OpenSession whole(bundle.handle, options), parts(bundle.handle, options);
    std::vector<int32_t> ids = tinyTokens(10, first), labels(10, -100);
    std::vector<MicroBatch> rows;
    for (auto [start, length] : {std::pair<uint32_t, uint32_t>{0, first}, {5, second}}) {
      std::vector<int32_t> row(ids.begin() + start, ids.begin() + start + length);
      std::copy(row.begin(), row.end(), labels.begin() + start);
      rows.push_back({row, row, 1, length});
    }
    std::vector<mebp_batch> views = viewsOf(rows);
    mebp_step_result one, two;
    ASSERT_EQ(mebp_session_step(whole.handle, ids.data(), labels.data(), 2, 5, &one, nullptr), MEBP_OK);
    ASSERT_EQ(mebp_session_step_batches(parts.handle, views.data(), 2, &two, nullptr), MEBP_OK);
    EXPECT_LT(relativeError(trainablesOf(bundle.handle, parts.handle), trainablesOf(bundle.handle, whole.handle)),
              1e-6);
    EXPECT_NEAR(one.loss, two.loss, 1e-5);
    EXPECT_EQ(one.tokens, two.tokens);
  }
}

// Holding gradients changes when they are applied, and nothing else.
TEST(Accumulation, OneBatchIsTheSameHoweverGradientsAreHeld) {
  for (bool shared : {false, true}) {
    TinyOptions tiny;
    tiny.sharedAdapters = shared;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    for (mebp_optimizer optimizer : {MEBP_SGD, MEBP_ADAMW}) {
      Values expected;
      for (mebp_session_options options : allWays()) {
        options.optimizer = optimizer;
        options.learning_rate = 1e-2;
        options.weight_decay = 0.1;
        OpenSession session(bundle.handle, options);
        mebp_step_result result;
        for (uint64_t step = 0; step < 3; ++step) {
          std::vector<int32_t> ids = tinyTokens(10, step);
          ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
        }
        Values values = trainablesOf(bundle.handle, session.handle);
        expected = expected.empty() ? values : expected;
        EXPECT_EQ(values, expected);
      }
    }
  }
}

TEST(Accumulation, ClipsTheNormOfTheWholeGradient) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  for (bool accumulate : {false, true}) {
    mebp_session_options options = plainOptions();
    options.accumulate = accumulate;
    options.return_gradients = true;
    OpenSession free(bundle.handle, options);
    std::vector<int32_t> ids = tinyTokens(10);
    mebp_step_result result, clipped;
    Values before = trainablesOf(bundle.handle, free.handle);
    ASSERT_EQ(mebp_session_step(free.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
    Values gradients = gradientsOf(bundle.handle, free.handle);
    EXPECT_FLOAT_EQ(result.grad_norm, static_cast<float>(normOf(gradients)));
    for (float part : {0.25f, 4.0f}) {
      options.clip = part * result.grad_norm;
      OpenSession session(bundle.handle, options);
      ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &clipped, nullptr), MEBP_OK);
      EXPECT_EQ(clipped.grad_norm, result.grad_norm);
      double factor = std::min(1.0, options.clip / (normOf(gradients) + 1e-6));
      Values expected = before, scaled = gradients;
      for (size_t i = 0; i < expected.size(); ++i)
        for (size_t j = 0; j < expected[i].size(); ++j) {
          scaled[i][j] = static_cast<float>(factor * gradients[i][j]);
          expected[i][j] = static_cast<float>(before[i][j] - factor * gradients[i][j]);
        }
      EXPECT_LT(relativeError(gradientsOf(bundle.handle, session.handle), scaled), 1e-6);
      EXPECT_LT(relativeError(trainablesOf(bundle.handle, session.handle), expected), 1e-6);
    }
  }
}

class RefusedStep : public testing::Test {
protected:
  // The embedding of `poison` is NaN; the head has weights of its own, so that other tokens stay well.
  static constexpr int32_t poison = tinyVocabulary - 1;
  static format::Bundle untied() {
    format::Bundle bundle = tinyBundle({});
    format::Weight *head = bundle.add_weights();
    *head = bundle.weights(0);
    head->set_name("lm_head.weight");
    head->clear_aliases();
    bundle.mutable_weights(0)->clear_aliases();
    head->set_data_offset(bundle.weights_bytes());
    bundle.set_weights_bytes(bundle.weights_bytes() + (tinyVocabulary * tinyHidden * 4 + 63) / 64 * 64);
    bundle.mutable_blocks(bundle.blocks_size() - 1)
        ->mutable_parameters(0)
        ->set_weight(static_cast<uint32_t>(bundle.weights_size() - 1));
    return bundle;
  }
  void SetUp() override {
    std::string weights = readWhole(folder.file("weights.bin"));
    auto nan = std::numeric_limits<float>::quiet_NaN();
    weights.replace(static_cast<size_t>(poison) * tinyHidden * 4, 4, reinterpret_cast<const char *>(&nan), 4);
    writeWhole(folder.file("weights.bin"), weights);
    ASSERT_EQ(bundle.code, MEBP_OK) << bundle.error.message;
  }

  // Refused with nothing changed: afterwards the session goes on as one that never saw the step.
  std::string refusal(mebp_session_options options, const std::vector<MicroBatch> &batches, mebp_code expected) {
    options.optimizer = MEBP_ADAMW;
    OpenSession session(bundle.handle, options), other(bundle.handle, options);
    mebp_step_result result;
    mebp_error error = {};
    auto good = [&](mebp_session *one, uint64_t seed) {
      std::vector<int32_t> ids = tinyTokens(10, seed);
      std::replace(ids.begin(), ids.end(), poison, 0);
      EXPECT_EQ(mebp_session_step(one, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK) << error.message;
    };
    good(session.handle, 1);
    good(other.handle, 1);
    std::vector<mebp_batch> views = viewsOf(batches);
    EXPECT_EQ(
        mebp_session_step_batches(session.handle, views.data(), static_cast<uint32_t>(views.size()), &result, &error),
        expected)
        << error.message;
    std::string message = error.message;
    EXPECT_EQ(mebp_session_steps(session.handle), 1u);
    EXPECT_EQ(trainablesOf(bundle.handle, session.handle), trainablesOf(bundle.handle, other.handle));
    good(session.handle, 2);
    good(other.handle, 2);
    EXPECT_EQ(trainablesOf(bundle.handle, session.handle), trainablesOf(bundle.handle, other.handle));
    return message;
  }

  BundleFolder folder{untied()};
  OpenBundle bundle{folder.path()};
  const MicroBatch good{{1, 2, 3}, {1, 2, 3}, 1, 3};
};

TEST_F(RefusedStep, ChangesNothingWhereALossIsNotFinite) {
  const MicroBatch bad{{1, poison, 3}, {1, 2, 3}, 1, 3};
  for (const mebp_session_options &options : allWays()) {
    std::vector<MicroBatch> batches = {good, good, bad};
    if (!options.accumulate)
      batches = {bad};
    EXPECT_EQ(refusal(options, batches, MEBP_NOT_FINITE),
              "the loss is nan; the parameters were not changed, a lower learning rate may help");
  }
}

// At a row's last position it is in no loss, and still in the gradient (as NaN times 0).
TEST_F(RefusedStep, ChangesNothingWhereTheGradientIsNotFinite) {
  const MicroBatch bad{{1, 2, poison}, {1, 2, 3}, 1, 3};
  for (const mebp_session_options &options : allWays()) {
    if (gradientsAreAppliedAtOnce(options))
      continue;
    std::vector<MicroBatch> batches = {good, bad, good};
    if (!options.accumulate)
      batches = {bad};
    EXPECT_EQ(refusal(options, batches, MEBP_NOT_FINITE),
              "the gradient's norm is nan; the parameters were not changed, a lower learning rate may help");
  }
}

TEST_F(RefusedStep, ChangesNothingWhereAMicroBatchIsRefused) {
  mebp_session_options options = plainOptions();
  options.accumulate = true;
  EXPECT_EQ(refusal(options, {good, {{1, 2, 11}, {1, 2, 3}, 1, 3}}, MEBP_OUT_OF_RANGE),
            "micro-batch 1: token 11 at row 0, position 2 is beyond the vocabulary of 11");
  EXPECT_EQ(refusal(options, {good, good, {{1, 2, 3}, {1, -7, 3}, 1, 3}}, MEBP_OUT_OF_RANGE),
            "micro-batch 2: label -7 at row 0, position 1 is neither -100 nor in the vocabulary of 11");
  const MicroBatch ignored{{1, 2, 3}, {1, -100, -100}, 1, 3};
  EXPECT_EQ(refusal(options, {ignored, ignored}, MEBP_INVALID_ARGUMENT),
            "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  EXPECT_EQ(refusal(options, {}, MEBP_INVALID_ARGUMENT), "a step needs at least one micro-batch");
  options.accumulate = false;
  EXPECT_EQ(refusal(options, {good, good}, MEBP_INVALID_ARGUMENT),
            "a step of 2 micro-batches needs room for their sum; create the session with accumulate");
}

TEST(Accumulation, RefusesAClipThatCannotBeMeant) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = plainOptions();
  for (float clip : {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    options.clip = clip;
    mebp_session *session = nullptr;
    mebp_error error;
    EXPECT_EQ(mebp_session_create(bundle.handle, &options, &session, &error), MEBP_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.message).find("is not a finite number of at least 0, where 0 is none"),
              std::string::npos)
        << error.message;
  }
}

// A block's two gradients of 48 bytes take 128 where they are applied at once. Held, they take 128 for each block; a
// sum over micro-batches needs the one and the other. What blocks share needs both in any case.
TEST(Accumulation, MemoryIsExact) {
  for (bool shared : {false, true}) {
    TinyOptions tiny;
    tiny.sharedAdapters = shared;
    format::Bundle content = tinyBundle(tiny);
    content.mutable_plan()->set_process_bytes(12345);
    BundleFolder folder(content);
    OpenBundle bundle(folder.path());
    mebp_session_options plain = plainOptions();
    uint64_t least = mebp_session_memory_bytes(bundle.handle, &plain);
    for (mebp_session_options options : allWays()) {
      uint64_t bytes = mebp_session_memory_bytes(bundle.handle, &options);
      // The gradients' own memory; what the head takes and gives is more than those of a block.
      uint64_t more = gradientsAreAppliedAtOnce(options) || shared ? 0 : 256;
      EXPECT_EQ(bytes, least + more);
      EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, &options), bytes + 12345);

      constexpr unsigned char guard = 0xA5;
      std::vector<unsigned char> room(bytes + 192, guard);
      auto *memory = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(room.data()) + 127) / 64 * 64);
      options.memory = memory;
      options.memory_bytes = bytes;
      OpenSession given(bundle.handle, options);
      options.memory = nullptr;
      OpenSession own(bundle.handle, options);
      std::vector<MicroBatch> batches = randomBatches(options.accumulate ? 3 : 1, 4);
      std::vector<mebp_batch> views = viewsOf(batches);
      mebp_step_result result;
      for (mebp_session *session : {given.handle, own.handle})
        for (int step = 0; step < 2; ++step)
          ASSERT_EQ(
              mebp_session_step_batches(session, views.data(), static_cast<uint32_t>(views.size()), &result, nullptr),
              MEBP_OK);
      EXPECT_EQ(trainablesOf(bundle.handle, given.handle), trainablesOf(bundle.handle, own.handle));
      EXPECT_EQ(memory[-1], guard);
      EXPECT_EQ(memory[bytes], guard);
    }
  }
}

} // namespace
