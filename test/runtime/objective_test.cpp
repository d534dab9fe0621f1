// SPDX-License-Identifier: Apache-2.0
//
// Log-probabilities by label, and objectives made of them.
#include <cmath>

#include "support/handles.h"

using namespace mebp::test;

namespace {

constexpr uint32_t batch = 2, sequence = 5, tokens = batch * sequence;
const std::vector<int32_t> ids = tinyTokens(tokens);

// Of both rows some; the first of a row is never predicted.
std::vector<int32_t> someLabels() {
  std::vector<int32_t> labels = ids;
  labels[2] = labels[6] = labels[9] = -100;
  return labels;
}
const std::vector<int32_t> labels = someLabels();
bool isPredicted(uint32_t place) { return place % sequence != 0 && labels[place] >= 0; }
std::vector<int32_t> labelAt(uint32_t place) {
  std::vector<int32_t> alone(tokens, -100);
  alone[place] = labels[place];
  return alone;
}

double lossOf(mebp_session *session, const std::vector<int32_t> &of) {
  double loss = 0;
  mebp_error error = {};
  EXPECT_EQ(mebp_session_loss(session, ids.data(), of.data(), batch, sequence, &loss, &error), MEBP_OK)
      << error.message;
  return loss;
}

// L = sum of factor[i] logp[i].
struct Weighted {
  std::vector<float> factors = std::vector<float>(tokens);
  std::vector<float> seen;
  int calls = 0;

  static double run(void *user, const float *logProbabilities, uint32_t rows, uint32_t columns, float *coefficients) {
    auto &self = *static_cast<Weighted *>(user);
    self.seen.assign(logProbabilities, logProbabilities + static_cast<size_t>(rows) * columns);
    ++self.calls;
    double loss = 0;
    for (uint32_t i = 0; i < rows * columns; ++i) {
      EXPECT_EQ(coefficients[i], 0);
      coefficients[i] = self.factors[i];
      loss += static_cast<double>(self.factors[i]) * logProbabilities[i];
    }
    return loss;
  }
};

struct Model {
  explicit Model(const TinyOptions &tiny = {}, const mebp_session_options &options = defaultOptions())
      : folder(tinyBundle(tiny)), bundle(folder.path()), session(bundle.handle, options) {}
  BundleFolder folder;
  OpenBundle bundle;
  OpenSession session;
};

TEST(LogProbabilities, StandAtTheirLabels) {
  Model model;
  std::vector<float> found(tokens, 9), entropy(tokens, 9), alone(tokens, 9);
  mebp_error error = {};
  ASSERT_EQ(mebp_session_log_probabilities(model.session.handle, ids.data(), labels.data(), batch, sequence,
                                           found.data(), entropy.data(), &error),
            MEBP_OK)
      << error.message;
  ASSERT_EQ(mebp_session_log_probabilities(model.session.handle, ids.data(), labels.data(), batch, sequence,
                                           alone.data(), nullptr, &error),
            MEBP_OK);
  EXPECT_EQ(alone, found);
  std::vector<float> logits(tokens * tinyVocabulary);
  ASSERT_EQ(mebp_session_logits(model.session.handle, ids.data(), batch, sequence, 0, sequence, logits.data(), &error),
            MEBP_OK);
  for (uint32_t place = 0; place < tokens; ++place) {
    if (!isPredicted(place)) {
      EXPECT_EQ(found[place], 0);
      EXPECT_EQ(entropy[place], 0);
      continue;
    }
    const float *row = &logits[static_cast<size_t>(place - 1) * tinyVocabulary];
    double z = 0, expected = 0;
    for (uint32_t word = 0; word < tinyVocabulary; ++word)
      z += std::exp(static_cast<double>(row[word]));
    for (uint32_t word = 0; word < tinyVocabulary; ++word)
      expected -= std::exp(row[word]) / z * (row[word] - std::log(z));
    EXPECT_NEAR(found[place], row[labels[place]] - std::log(z), 1e-6);
    EXPECT_NEAR(entropy[place], expected, 2e-6);
    // Other rows make no difference to the bit.
    EXPECT_EQ(static_cast<float>(-lossOf(model.session.handle, labelAt(place))), found[place]);
  }
}

TEST(LogProbabilities, NeedNoLabel) {
  Model model;
  std::vector<float> found(tokens, 9);
  const std::vector<int32_t> none(tokens, -100);
  ASSERT_EQ(mebp_session_log_probabilities(model.session.handle, ids.data(), none.data(), batch, sequence, found.data(),
                                           nullptr, nullptr),
            MEBP_OK);
  EXPECT_EQ(found, std::vector<float>(tokens));
}

// The gradient is linear in the coefficients: that of a weighted sum is the weighted sum of each label's own.
TEST(Objective, GradientsAreThoseOfTheSum) {
  for (bool inPlace : {false, true}) {
    TinyOptions tiny;
    tiny.chunk = 2;
    tiny.inPlace = inPlace;
    Model model(tiny);
    Weighted objective;
    std::vector<std::vector<double>> expected;
    double loss = 0, expectedLoss = 0, own;
    mebp_error error = {};
    for (uint32_t place = 0; place < tokens; ++place) {
      objective.factors[place] = isPredicted(place) ? 0.3f * static_cast<float>(place) - 1 : 77; // of no label: ignored
      if (!isPredicted(place))
        continue;
      const std::vector<int32_t> alone = labelAt(place);
      ASSERT_EQ(mebp_session_gradients(model.session.handle, ids.data(), alone.data(), batch, sequence, &own, &error),
                MEBP_OK)
          << error.message;
      expectedLoss -= objective.factors[place] * own;
      const auto gradients = gradientsOf(model.bundle.handle, model.session.handle);
      expected.resize(gradients.size());
      for (size_t i = 0; i < gradients.size(); ++i) {
        expected[i].resize(gradients[i].size());
        for (size_t j = 0; j < gradients[i].size(); ++j)
          expected[i][j] -= static_cast<double>(objective.factors[place]) * gradients[i][j];
      }
    }
    ASSERT_EQ(mebp_session_objective_gradients(model.session.handle, ids.data(), labels.data(), batch, sequence,
                                               Weighted::run, &objective, &loss, &error),
              MEBP_OK)
        << error.message;
    EXPECT_NEAR(loss, expectedLoss, 1e-5 * std::fabs(expectedLoss));
    const auto gradients = gradientsOf(model.bundle.handle, model.session.handle);
    for (size_t i = 0; i < gradients.size(); ++i) {
      double difference = 0, norm = 0;
      for (size_t j = 0; j < gradients[i].size(); ++j) {
        difference += std::pow(gradients[i][j] - expected[i][j], 2);
        norm += expected[i][j] * expected[i][j];
      }
      EXPECT_LE(std::sqrt(difference), 2e-6 * std::sqrt(norm)) << i;
    }
  }
}

// The mean loss as an objective steps as the mean loss does.
TEST(Objective, OfTheMeanIsTheLoss) {
  for (mebp_optimizer optimizer : {MEBP_SGD, MEBP_MEZO}) {
    mebp_session_options options = defaultOptions();
    options.optimizer = optimizer;
    options.return_gradients = false;
    Model one({}, options), other({}, options);
    Weighted objective;
    uint32_t count = 0;
    for (uint32_t place = 0; place < tokens; ++place)
      count += isPredicted(place);
    for (float &factor : objective.factors)
      factor = -1.0f / static_cast<float>(count);
    const mebp_batch given = {ids.data(), labels.data(), batch, sequence};
    mebp_step_result result, expected;
    mebp_error error = {};
    for (int step = 0; step < 3; ++step) {
      ASSERT_EQ(mebp_session_step(one.session.handle, ids.data(), labels.data(), batch, sequence, &expected, &error),
                MEBP_OK)
          << error.message;
      ASSERT_EQ(
          mebp_session_objective_step(other.session.handle, &given, 1, Weighted::run, &objective, &result, &error),
          MEBP_OK)
          << error.message;
      EXPECT_NEAR(result.loss, expected.loss, 1e-6 * expected.loss);
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-3 * expected.grad_norm);
    }
    EXPECT_EQ(objective.calls, optimizer == MEBP_MEZO ? 6 : 3);
  }
}

TEST(Objective, MicroBatchesAddUp) {
  mebp_session_options options = defaultOptions();
  options.accumulate = true;
  Model model({}, options);
  Weighted objective;
  std::fill(objective.factors.begin(), objective.factors.end(), -0.25f);
  const std::vector<int32_t> none(tokens, -100);
  const mebp_batch batches[] = {{ids.data(), labels.data(), 1, sequence},
                                {ids.data(), none.data(), 1, sequence},
                                {ids.data() + sequence, labels.data() + sequence, 1, sequence}};
  mebp_step_result result;
  mebp_error error = {};
  ASSERT_EQ(mebp_session_objective_step(model.session.handle, batches, 3, Weighted::run, &objective, &result, &error),
            MEBP_OK)
      << error.message;
  EXPECT_EQ(objective.calls, 2); // not where there is no label
  EXPECT_EQ(objective.seen.size(), sequence);
}

TEST(Objective, RefusesWhatIsNotFinite) {
  Model model;
  const auto before = trainablesOf(model.bundle.handle, model.session.handle);
  const mebp_batch given = {ids.data(), labels.data(), batch, sequence};
  mebp_step_result result;
  mebp_error error = {};
  Weighted objective;
  objective.factors[1] = NAN;
  EXPECT_EQ(mebp_session_objective_step(model.session.handle, &given, 1, Weighted::run, &objective, &result, &error),
            MEBP_NOT_FINITE);
  EXPECT_EQ(std::string(error.message).rfind("the objective's coefficient is nan", 0), 0u) << error.message;
  mebp_objective infinite = [](void *, const float *, uint32_t, uint32_t, float *) { return double(INFINITY); };
  EXPECT_EQ(mebp_session_objective_step(model.session.handle, &given, 1, infinite, nullptr, &result, &error),
            MEBP_NOT_FINITE);
  EXPECT_EQ(std::string(error.message).rfind("the loss is inf", 0), 0u) << error.message;
  EXPECT_EQ(mebp_session_objective_step(model.session.handle, &given, 1, nullptr, nullptr, &result, &error),
            MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'objective' is NULL; give what mebp.h asks for");
  double loss;
  EXPECT_EQ(mebp_session_objective_gradients(model.session.handle, ids.data(), labels.data(), batch, sequence, nullptr,
                                             nullptr, &loss, &error),
            MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(trainablesOf(model.bundle.handle, model.session.handle), before);
}

} // namespace
