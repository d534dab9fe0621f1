// SPDX-License-Identifier: Apache-2.0
//
// MeZO's step against the gradient that it does without.
#include <algorithm>
#include <cmath>

#include "format/programs.h"
#include "support/handles.h"

using namespace mebp::test;

namespace {

using Values = std::vector<std::vector<float>>;

const std::vector<int32_t> ids = tinyTokens(10);

mebp_session_options mezoOptions() {
  mebp_session_options options = defaultOptions();
  options.optimizer = MEBP_MEZO;
  options.return_gradients = false;
  return options;
}

mebp_step_result step(mebp_session *session) {
  mebp_step_result result = {};
  mebp_error error = {};
  EXPECT_EQ(mebp_session_step(session, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_OK) << error.message;
  return result;
}

double dot(const Values &left, const Values &right) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = 0; j < left[i].size(); ++j)
      sum += static_cast<double>(left[i][j]) * right[i][j];
  return sum;
}

Values difference(Values left, const Values &right) {
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = 0; j < left[i].size(); ++j)
      left[i][j] -= right[i][j];
  return left;
}

TEST(Mezo, StepsByTheSlopeAlongItsDirection) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = mezoOptions();
  options.learning_rate = 0.01;
  OpenSession session(bundle.handle, options), exact(bundle.handle, defaultOptions());
  double elements = 0, squares = 0;
  for (int i = 0; i < 5; ++i) {
    Values before = trainablesOf(bundle.handle, session.handle);
    for (uint32_t index = 0; index < before.size(); ++index)
      mebp_session_write_trainable(exact.handle, index, before[index].data(), before[index].size(), nullptr);
    double loss;
    ASSERT_EQ(mebp_session_gradients(exact.handle, ids.data(), ids.data(), 2, 5, &loss, nullptr), MEBP_OK);
    Values gradient = gradientsOf(bundle.handle, exact.handle);
    mebp_step_result result = step(session.handle);
    EXPECT_NEAR(result.loss, loss, 1e-4); // the mean of the two has no first order
    EXPECT_EQ(result.tokens, 8u);

    // The change is -lr slope z, so z . gradient = slope says this.
    Values change = difference(trainablesOf(bundle.handle, session.handle), before);
    double slope = result.grad_norm;
    EXPECT_NEAR(dot(change, gradient), -0.01 * slope * slope, 0.001 * slope * slope + 1e-5);
    squares += dot(change, change) / (1e-4 * slope * slope);
    for (const std::vector<float> &each : change)
      elements += static_cast<double>(each.size());
  }
  EXPECT_NEAR(squares / elements, 1, 0.2); // the variance of z
  EXPECT_EQ(mebp_session_steps(session.handle), 5u);
}

TEST(Mezo, LowersTheLossTheSameWithAnyThreads) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  std::vector<float> losses[2];
  for (uint32_t threads : {1u, 2u}) {
    mebp_session_options options = mezoOptions();
    options.threads = threads;
    options.learning_rate = 2e-3;
    OpenSession session(bundle.handle, options);
    for (int i = 0; i < 400; ++i)
      losses[threads - 1].push_back(step(session.handle).loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(losses[0].back(), 0.9f * losses[0].front());
}

TEST(Mezo, NeedsNoMemoryForGradients) {
  TinyOptions tiny;
  tiny.layers = 6;
  for (bool inPlace : {false, true}) {
    tiny.inPlace = inPlace;
    BundleFolder folder(tinyBundle(tiny));
    OpenBundle bundle(folder.path());
    mebp_session_options mezo = mezoOptions(), sgd = mezo;
    sgd.optimizer = MEBP_SGD;
    constexpr uint64_t checkpoint = 256;
    EXPECT_LE(mebp_session_memory_bytes(bundle.handle, &mezo) + tiny.layers * checkpoint,
              mebp_session_memory_bytes(bundle.handle, &sgd));
    mezo.accumulate = true; // nothing is summed but losses
    mebp_session_options plain = mezoOptions();
    EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &mezo), mebp_session_memory_bytes(bundle.handle, &plain));
  }
}

TEST(Mezo, TakesMicroBatchesAsOne) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options options = mezoOptions();
  options.accumulate = true;
  options.learning_rate = 0.1;
  OpenSession whole(bundle.handle, options), parts(bundle.handle, options);
  step(whole.handle);
  const mebp_batch rows[] = {{ids.data(), ids.data(), 1, 5}, {ids.data() + 5, ids.data() + 5, 1, 5}};
  mebp_step_result result;
  ASSERT_EQ(mebp_session_step_batches(parts.handle, rows, 2, &result, nullptr), MEBP_OK);
  EXPECT_EQ(result.tokens, 8u);
  Values expected = trainablesOf(bundle.handle, whole.handle), found = trainablesOf(bundle.handle, parts.handle);
  Values apart = difference(found, expected);
  EXPECT_LT(std::sqrt(dot(apart, apart)), 1e-4 * std::sqrt(dot(expected, expected)));
}

// A row for each, of which some have no label that counts.
struct Rows {
  explicit Rows(uint32_t count) : ids(tinyTokens(5 * count, count)), labels(ids) {
    for (uint32_t i = 0; i < count; ++i) {
      if (i % 3 == 1)
        std::fill_n(labels.begin() + 5 * i, 5, -100);
      counted += i % 3 == 1 ? 0 : 4;
      batches.push_back({&ids[5 * i], &labels[5 * i], 1, 5});
    }
  }
  std::vector<int32_t> ids, labels;
  std::vector<mebp_batch> batches;
  uint64_t counted = 0;
};

// The two losses of a part of a step, and the parameters after it.
struct Part {
  std::vector<double> told;
  const std::vector<double> *ofAll = nullptr; // which it goes on with
  Values after;

  void run(const OpenBundle &bundle, const Rows &rows, uint32_t first, uint32_t count) {
    mebp_session_options options = mezoOptions();
    options.accumulate = true;
    options.learning_rate = 0.1;
    mebp_shared_sums sums = {};
    sums.on_loss = [](void *user, double *loss) {
      Part &part = *static_cast<Part *>(user);
      part.told.push_back(*loss);
      if (part.ofAll)
        *loss = part.ofAll->at(part.told.size() - 1);
      return MEBP_OK;
    };
    sums.user = this;
    options.shared_sums = &sums;
    OpenSession session(bundle.handle, options);
    mebp_step_part part;
    mebp_step_part_init(&part);
    part.labels = rows.counted;
    part.batches = static_cast<uint32_t>(rows.batches.size());
    part.first_row = first;
    mebp_step_result result;
    mebp_error error = {};
    EXPECT_EQ(mebp_session_step_part(session.handle, &rows.batches[first], nullptr, count, &part, &result, &error),
              MEBP_OK)
        << error.message;
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(result.loss, (told[0] + told[1]) / 2); // of the part
    after = trainablesOf(bundle.handle, session.handle);
  }
};

// Neighbours first, then pairs of them, and what is left, the latest first.
double joined(const std::vector<double> &parts) {
  std::vector<double> open;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    open.push_back(parts[i]);
    for (uint32_t rest = i; open.size() > 1 && (rest & 1 || i + 1 == parts.size()); rest >>= 1) {
      const double later = open.back();
      open.pop_back();
      open.back() += later;
    }
  }
  return open.front();
}

TEST(Mezo, SharesAStepByTwoLossesWithTheSameBits) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  for (uint32_t count = 1; count <= 12; ++count) {
    const Rows rows(count);
    Part whole;
    whole.run(bundle, rows, 0, count);
    for (uint32_t size = 1; size <= count; size *= 2) {
      if (count % size)
        continue;
      std::vector<double> above, below;
      for (uint32_t first = 0; first < count; first += size) {
        Part part;
        part.ofAll = &whole.told;
        part.run(bundle, rows, first, size);
        above.push_back(part.told[0]);
        below.push_back(part.told[1]);
        EXPECT_EQ(part.after, whole.after) << size << " of " << count;
      }
      EXPECT_EQ((std::vector<double>{joined(above), joined(below)}), whole.told) << size << " of " << count;
    }
  }
}

TEST(Mezo, ChangesNothingWhereLossesCannotBeShared) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  for (int failsAt : {1, 2}) {
    mebp_session_options options = mezoOptions();
    int left = failsAt;
    mebp_shared_sums sums = {};
    sums.on_loss = [](void *user, double *) { return --*static_cast<int *>(user) ? MEBP_OK : MEBP_DISCONNECTED; };
    sums.user = &left;
    options.shared_sums = &sums;
    OpenSession session(bundle.handle, options);
    const Values before = trainablesOf(bundle.handle, session.handle);
    mebp_step_result result;
    mebp_error error = {};
    EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_DISCONNECTED);
    EXPECT_STREQ(error.message, "on_loss has failed; nothing has been applied");
    EXPECT_EQ(mebp_session_steps(session.handle), 0u);
    const Values apart = difference(trainablesOf(bundle.handle, session.handle), before);
    EXPECT_LT(dot(apart, apart), 1e-12 * dot(before, before)); // the rounding of two additions
  }
}

TEST(Mezo, DecaysWeights) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  mebp_session_options plain = mezoOptions(), decaying = mezoOptions();
  plain.learning_rate = decaying.learning_rate = 0.1;
  decaying.weight_decay = 0.5;
  OpenSession expected(bundle.handle, plain), session(bundle.handle, decaying);
  Values before = trainablesOf(bundle.handle, session.handle);
  step(expected.handle);
  step(session.handle);
  Values decayed =
      difference(trainablesOf(bundle.handle, expected.handle), trainablesOf(bundle.handle, session.handle));
  EXPECT_NEAR(dot(decayed, before), 0.05 * dot(before, before), 1e-4 * dot(before, before));
}

TEST(Mezo, ContinuesFromASavedState) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  std::string state = scratchPath();
  OpenSession first(bundle.handle, mezoOptions()), then(bundle.handle, mezoOptions());
  for (int i = 0; i < 3; ++i)
    step(first.handle);
  ASSERT_EQ(mebp_session_save_state(first.handle, state.c_str(), nullptr, 0, nullptr), MEBP_OK);
  ASSERT_EQ(mebp_session_load_state(then.handle, state.c_str(), nullptr, nullptr, nullptr), MEBP_OK);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(step(first.handle).loss, step(then.handle).loss);
  EXPECT_EQ(trainablesOf(bundle.handle, first.handle), trainablesOf(bundle.handle, then.handle));
  mebp_session_options other = mezoOptions();
  other.perturbation = 1e-2;
  OpenSession farther(bundle.handle, other);
  EXPECT_EQ(mebp_session_load_state(farther.handle, state.c_str(), nullptr, nullptr, nullptr), MEBP_INCOMPATIBLE);
}

TEST(Mezo, PutsParametersBackWhereALossIsNotFinite) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle, mezoOptions());
  std::vector<float> huge(elementsOf(bundle.handle, 0), 1e30f);
  for (uint32_t index : {0u, 1u})
    mebp_session_write_trainable(session.handle, index, huge.data(), huge.size(), nullptr);
  Values before = trainablesOf(bundle.handle, session.handle);
  mebp_step_result result;
  mebp_error error;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_NOT_FINITE);
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
  // There and back is two additions, each rounded to half a unit of the last place of what it gives.
  Values after = trainablesOf(bundle.handle, session.handle);
  constexpr float farthest = 1e-3f * 6; // of a standard normal number in so few draws
  for (size_t i = 0; i < before.size(); ++i)
    for (size_t j = 0; j < before[i].size(); ++j)
      EXPECT_LE(std::fabs(after[i][j] - before[i][j]), 0x1p-23f * (std::fabs(before[i][j]) + farthest));
}

TEST(Mezo, RefusesWhatItHasNoUseFor) {
  mebp::format::Bundle content = tinyBundle({});
  BundleFolder folder(content);
  OpenBundle bundle(folder.path());
  auto refusal = [](mebp_bundle *handle, const mebp_session_options &options) {
    mebp_session *session = nullptr;
    mebp_error error = {};
    EXPECT_NE(mebp_session_create(handle, &options, &session, &error), MEBP_OK);
    return std::string(error.message);
  };
  mebp_session_options options = mezoOptions();
  options.clip = 1;
  EXPECT_EQ(refusal(bundle.handle, options), "mezo has no gradient that could be clipped; leave out clip");
  options = mezoOptions();
  options.perturbation = 0;
  EXPECT_EQ(refusal(bundle.handle, options), "perturbation 0 is not a finite number above 0");
  options = mezoOptions();
  options.spill_folder = "/";
  EXPECT_EQ(refusal(bundle.handle, options),
            "without gradients, as with MeZO, nothing is kept that could be spilled; leave out the folder");
  options = mezoOptions();
  options.optimizer = MEBP_SGD;
  mebp_shared_sums sums = {};
  sums.on_loss = [](void *, double *) { return MEBP_OK; };
  options.shared_sums = &sums;
  EXPECT_EQ(refusal(bundle.handle, options),
            "on_loss is told of the two losses of a step of MeZO; leave it out with another optimizer or forward_only");
  options = mezoOptions();
  options.accumulate = true;
  sums = {};
  sums.on_subspace = [](void *, uint32_t, float *, uint64_t) { return MEBP_OK; };
  options.shared_sums = &sums;
  EXPECT_EQ(refusal(bundle.handle, options), "on_subspace is told of sums that subspaces are found from; give "
                                             "accumulate and an optimizer that projects gradients, or leave it out");
  {
    const Rows rows(2);
    mebp_step_part part;
    mebp_step_part_init(&part);
    part.labels = 4;
    part.batches = 2;
    OpenSession alone(bundle.handle, mezoOptions());
    mebp_step_result result;
    mebp_error error;
    EXPECT_EQ(mebp_session_step_part(alone.handle, rows.batches.data(), nullptr, 1, &part, &result, &error),
              MEBP_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, "sessions that share a step of MeZO sum their losses; create each with on_loss");
  }
  auto *programs = content.mutable_blocks()->rbegin()->mutable_programs();
  mebp::format::Repeated<mebp::format::BlockProgram> others;
  for (const auto &program : *programs)
    if (program.name() != mebp::format::logProbabilitiesProgram)
      *others.Add() = program;
  *programs = others;
  BundleFolder without(content);
  OpenBundle old(without.path());
  OpenSession session(old.handle, mezoOptions());
  mebp_step_result result;
  mebp_error error;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "the bundle has no program for log-probabilities alone; compile it again");
}

} // namespace
