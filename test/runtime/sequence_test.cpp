// SPDX-License-Identifier: Apache-2.0
//
// Steps over sequences whose coefficients the caller makes.
#include <cmath>

#include "support/handles.h"

using namespace mebp::test;

namespace {

constexpr uint32_t batch = 1, sequence = 5;
const std::vector<int32_t> ids = tinyTokens(3 * sequence);

mebp_session_options summing(bool pending = false) {
  mebp_session_options options = defaultOptions();
  options.accumulate = true;
  options.pending_gradients = pending;
  return options;
}

mebp_scores scoresTo(float *logProbabilities) {
  mebp_scores scores;
  mebp_scores_init(&scores);
  scores.log_probabilities = logProbabilities;
  return scores;
}

struct Model {
  explicit Model(const mebp_session_options &options = summing())
      : folder(tinyBundle({})), bundle(folder.path()), session(bundle.handle, options) {}

  mebp_code begin(uint32_t number, double temperature = 1) {
    mebp_scoring scoring;
    mebp_scoring_init(&scoring);
    scoring.temperature = temperature;
    const int32_t *tokens = ids.data() + static_cast<size_t>(number) * sequence;
    const mebp_scores out = scoresTo(logProbabilities);
    return mebp_session_begin_sequence(session.handle, tokens, tokens, batch, sequence, &scoring, &out, &error);
  }
  mebp_code end(float coefficient, bool pending = false) {
    const std::vector<float> all(sequence, coefficient);
    mebp_coefficients coefficients;
    mebp_coefficients_init(&coefficients);
    coefficients.log_probabilities = all.data();
    return mebp_session_end_sequence(session.handle, &coefficients, pending, &error);
  }
  void add(uint32_t number, float coefficient, bool pending = false) {
    ASSERT_EQ(begin(number), MEBP_OK) << error.message;
    ASSERT_EQ(end(coefficient, pending), MEBP_OK) << error.message;
  }
  mebp_code apply() { return mebp_session_apply(session.handle, &result, &error); }
  std::vector<std::vector<float>> gradients() const { return gradientsOf(bundle.handle, session.handle); }
  std::vector<std::vector<float>> trainables() const { return trainablesOf(bundle.handle, session.handle); }

  BundleFolder folder;
  OpenBundle bundle;
  OpenSession session;
  float logProbabilities[sequence] = {};
  mebp_step_result result;
  mebp_error error = {};
};

double distance(const std::vector<std::vector<float>> &left, const std::vector<std::vector<float>> &right) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = 0; j < left[i].size(); ++j) {
      difference += std::pow(static_cast<double>(left[i][j]) - right[i][j], 2);
      norm += std::pow(static_cast<double>(right[i][j]), 2);
    }
  return std::sqrt(difference / norm);
}

TEST(Sequence, WithTheMeansCoefficientsIsAStep) {
  Model one, other;
  const mebp_batch batches[] = {{ids.data(), ids.data(), batch, sequence},
                                {ids.data() + sequence, ids.data() + sequence, batch, sequence}};
  for (int step = 0; step < 3; ++step) {
    mebp_step_result expected;
    ASSERT_EQ(mebp_session_step_batches(one.session.handle, batches, 2, &expected, &one.error), MEBP_OK);
    double loss = 0;
    for (uint32_t number : {0, 1}) {
      other.add(number, -1.0f / (2 * (sequence - 1)));
      for (float value : other.logProbabilities)
        loss -= value / (2 * (sequence - 1));
    }
    ASSERT_EQ(other.apply(), MEBP_OK) << other.error.message;
    EXPECT_NEAR(loss, expected.loss, 1e-6 * loss);
    EXPECT_NEAR(other.result.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
  }
  EXPECT_EQ(mebp_session_steps(other.session.handle), 3u);
  EXPECT_LE(distance(other.trainables(), one.trainables()), 1e-5);
}

// Of each coefficient the gradient is a multiple, whenever the factor comes.
TEST(Sequence, TakesItsFactorLater) {
  Model at, alone;
  at.add(0, 0.75f);
  at.add(1, -0.5f);
  alone.add(0, 1, true);
  EXPECT_EQ(alone.begin(1), MEBP_OK);
  EXPECT_EQ(mebp_session_settle(alone.session.handle, 0.75, &alone.error), MEBP_OK);
  EXPECT_EQ(alone.end(-0.5f), MEBP_OK) << alone.error.message;
  EXPECT_LE(distance(alone.gradients(), at.gradients()), 1e-6);

  Model pending(summing(true));
  at.add(2, 0.25f);
  pending.add(1, -0.5f);
  pending.add(0, 1, true);
  EXPECT_EQ(pending.begin(2), MEBP_OK);
  EXPECT_EQ(mebp_session_settle(pending.session.handle, 0.75, &pending.error), MEBP_OK);
  EXPECT_EQ(pending.end(0.25f), MEBP_OK);
  EXPECT_LE(distance(pending.gradients(), at.gradients()), 1e-6);
  EXPECT_EQ(pending.apply(), MEBP_OK);
}

// logp = z / t - log sum exp(z / t), of what is scored and of what is trained, and its derivative.
TEST(Sequence, DividesLogitsByTheTemperature) {
  Model model;
  const double temperature = 0.7;
  ASSERT_EQ(model.begin(0, temperature), MEBP_OK);
  std::vector<float> logits(sequence * tinyVocabulary);
  const std::vector<float> found(model.logProbabilities, model.logProbabilities + sequence);
  ASSERT_EQ(mebp_session_logits(model.session.handle, ids.data(), batch, sequence, 0, sequence, logits.data(), nullptr),
            MEBP_OK);
  for (uint32_t place = 1; place < sequence; ++place) {
    const float *row = &logits[static_cast<size_t>(place - 1) * tinyVocabulary];
    double z = 0;
    for (uint32_t word = 0; word < tinyVocabulary; ++word)
      z += std::exp(row[word] / temperature);
    EXPECT_NEAR(found[place], row[ids[place]] / temperature - std::log(z), 2e-6);
  }
}

TEST(Sequence, DerivativeKnowsTheTemperature) {
  const double temperature = 0.7, step = 1e-2;
  Model model;
  auto sumOf = [&] {
    EXPECT_EQ(model.begin(0, temperature), MEBP_OK);
    double sum = 0;
    for (float value : model.logProbabilities)
      sum += value;
    return sum;
  };
  (void)sumOf();
  ASSERT_EQ(model.end(1), MEBP_OK);
  const auto gradients = model.gradients();
  auto trainables = model.trainables();
  double expected = 0, along = 0;
  // Along the gradient itself.
  for (double sign : {1.0, -1.0}) {
    for (uint32_t i = 0; i < trainables.size(); ++i) {
      std::vector<float> moved = trainables[i];
      for (size_t j = 0; j < moved.size(); ++j)
        moved[j] += static_cast<float>(sign * step * gradients[i][j]);
      ASSERT_EQ(mebp_session_write_trainable(model.session.handle, i, moved.data(), moved.size(), nullptr), MEBP_OK);
    }
    expected += sign * sumOf() / (2 * step);
  }
  for (const auto &gradient : gradients)
    for (float value : gradient)
      along += static_cast<double>(value) * value;
  EXPECT_NEAR(along, expected, 1e-3 * along);
}

std::vector<float> scored(Model &model, const mebp_scoring &scoring) {
  std::vector<float> found(sequence);
  const mebp_scores out = scoresTo(found.data());
  EXPECT_EQ(
      mebp_session_score(model.session.handle, ids.data(), ids.data(), batch, sequence, &scoring, &out, &model.error),
      MEBP_OK)
      << model.error.message;
  return found;
}

TEST(Scoring, SetsTheAdapterAside) {
  Model model, fresh, none;
  mebp_scoring own, base, other;
  mebp_scoring_init(&own);
  mebp_scoring_init(&base);
  mebp_scoring_init(&other);
  base.by_base = true;
  const std::vector<float> atFirst = scored(model, own);
  for (uint32_t i = 0; i < none.trainables().size(); ++i) {
    const std::vector<float> zeros(none.trainables()[i].size());
    ASSERT_EQ(mebp_session_write_trainable(none.session.handle, i, zeros.data(), zeros.size(), nullptr), MEBP_OK);
  }
  model.add(0, -1);
  ASSERT_EQ(model.apply(), MEBP_OK);
  const auto trained = model.trainables();
  const std::vector<float> changed = scored(model, own);
  EXPECT_NE(changed, atFirst);
  EXPECT_EQ(scored(model, base), scored(none, own));
  EXPECT_EQ(model.trainables(), trained);

  std::vector<const float *> pointers;
  for (const auto &values : trained)
    pointers.push_back(values.data());
  other.trainables = pointers.data();
  EXPECT_EQ(scored(fresh, other), changed);
  EXPECT_EQ(scored(fresh, own), atFirst);
}

TEST(Scoring, IsRefused) {
  Model model;
  mebp_scoring scoring;
  mebp_scoring_init(&scoring);
  std::vector<float> found(sequence);
  auto score = [&](Model &of) {
    const mebp_scores out = scoresTo(found.data());
    return mebp_session_score(of.session.handle, ids.data(), ids.data(), batch, sequence, &scoring, &out, &of.error);
  };
  for (double temperature : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    scoring.temperature = temperature;
    EXPECT_EQ(score(model), MEBP_INVALID_ARGUMENT) << temperature;
  }
  EXPECT_STREQ(model.error.message, "the temperature is inf; give a finite number above 0");
  scoring.temperature = 0;
  scoring.by_base = true;
  model.add(0, 1);
  EXPECT_EQ(score(model), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(model.error.message, "gradients of sequences are where the adapter would be set aside; score by another "
                                    "adapter before the step's first sequence");
  mebp_session_options options = defaultOptions();
  options.return_gradients = false;
  Model without(options);
  EXPECT_EQ(score(without), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(without.error.message, "the session has no room to set its adapter aside; create it with accumulate or "
                                      "return_gradients");
}

TEST(Sequence, IsRefused) {
  Model model;
  const auto before = model.trainables();
  auto says = [&](mebp_code code, const char *line) {
    EXPECT_EQ(code, MEBP_INVALID_ARGUMENT);
    EXPECT_STREQ(model.error.message, line);
  };
  const char *closed = "no sequence is open: another call has taken its memory, or it has ended";
  says(model.end(1), closed);
  says(model.apply(), "there is no gradient of a sequence to apply");
  says(mebp_session_settle(model.session.handle, 1, &model.error), "no gradient waits for a factor");
  ASSERT_EQ(model.begin(0), MEBP_OK);
  double loss;
  ASSERT_EQ(mebp_session_loss(model.session.handle, ids.data(), ids.data(), batch, sequence, &loss, nullptr), MEBP_OK);
  says(model.end(1), closed);
  model.add(0, 1, true);
  says(model.apply(), "the last gradient waits for its factor; give it first");
  ASSERT_EQ(model.begin(1), MEBP_OK);
  says(model.end(1), "the last gradient waits for its factor; give it first");
  ASSERT_EQ(mebp_session_settle(model.session.handle, 2, nullptr), MEBP_OK);
  ASSERT_EQ(model.begin(1), MEBP_OK);
  says(model.end(1, true),
       "a gradient whose factor comes later has to be the first of its step or micro-batch, or to have room of its "
       "own; create the session with pending_gradients");
  ASSERT_EQ(mebp_session_discard(model.session.handle, nullptr), MEBP_OK);
  says(model.apply(), "there is no gradient of a sequence to apply");
  ASSERT_EQ(model.begin(1), MEBP_OK);
  EXPECT_EQ(model.end(NAN), MEBP_NOT_FINITE);
  const std::vector<int32_t> none(sequence, -100);
  const mebp_scores out = scoresTo(model.logProbabilities);
  says(mebp_session_begin_sequence(model.session.handle, ids.data(), none.data(), batch, sequence, nullptr, &out,
                                   &model.error),
       "the sequence has no label that counts: all are -100, or stand at a row's first position, which nothing "
       "predicts");
  EXPECT_EQ(model.trainables(), before);

  mebp_scores values = out;
  values.values = model.logProbabilities;
  EXPECT_EQ(
      mebp_session_score(model.session.handle, ids.data(), ids.data(), batch, sequence, nullptr, &values, &model.error),
      MEBP_UNSUPPORTED);
  EXPECT_STREQ(model.error.message, "the bundle's head gives no values; compile it with --value-head");
  ASSERT_EQ(model.begin(0), MEBP_OK);
  const std::vector<float> zeros(sequence);
  mebp_coefficients coefficients;
  mebp_coefficients_init(&coefficients);
  coefficients.entropy = zeros.data();
  EXPECT_EQ(mebp_session_end_sequence(model.session.handle, &coefficients, false, &model.error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(model.error.message,
               "the bundle's head has no derivative of its entropy; compile it with --entropy-bonus");

  Model keeping(defaultOptions());
  EXPECT_EQ(keeping.begin(0), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(keeping.error.message, "a step over sequences needs room for the sum of their gradients; create the "
                                      "session with accumulate, and an optimizer that takes gradients");
}

} // namespace
