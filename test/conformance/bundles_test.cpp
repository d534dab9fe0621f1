// SPDX-License-Identifier: Apache-2.0
//
// Bundles as mebpc makes them, in the folder MEBP_TEST_BUNDLES (make_bundles.py fills one): every program of every
// block, then whole steps.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "agreement.h"
#include "format/random.h"
#include "runtime/api/handle.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// In f32, results differ by the order of their sums. Where values are stored in bf16, numbers that round the other way
// differ by a step, 2^-8, and what is computed from them by a few, the more so over several layers; and a device may
// round the factors of products as well.
double toleranceOf(const Bundle &bundle, int layers) {
  return bundle.model().activation() == format::BF16 ? 1.5e-2 * layers : 1e-5;
}

class BackendBundles : public testing::Test {
protected:
  void SetUp() override {
    const char *folder = std::getenv("MEBP_TEST_BUNDLES");
    if (!folder)
      GTEST_SKIP() << "MEBP_TEST_BUNDLES names no folder with bundles";
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".mebp")
        paths.insert(entry.path());
    ASSERT_FALSE(paths.empty());
  }

  // Beside the verdict, what was measured.
  static void check(const std::string &what, const std::vector<Difference> &differences, double tolerance) {
    Difference worst = {"", 0};
    for (const Difference &difference : differences) {
      EXPECT_LE(difference.error, tolerance) << what << ": " << difference.of;
      if (!(difference.error <= worst.error))
        worst = difference;
      if (std::getenv("MEBP_SHOW_ALL"))
        std::printf("%-38s %.1e  %s\n", what.c_str(), difference.error, difference.of.c_str());
    }
    std::printf("%-38s %zu results, worst %.1e: %s\n", what.c_str(), differences.size(), worst.error, worst.of.c_str());
  }

  std::set<std::filesystem::path> paths;
};

TEST_F(BackendBundles, AgreeInEveryProgram) {
  for (const std::filesystem::path &path : paths) {
    OpenBundle opened(path);
    ASSERT_EQ(opened.code, MEBP_OK) << opened.error.message;
    Bundle &bundle = opened.handle->bundle;
    Status status = bundle.mapWeights();
    ASSERT_TRUE(status.ok()) << status.message();
    OwnBackend reference = makeReference(), tested(numberUnderTest);
    for (const Status &loaded : {reference.load(bundle.content()), tested.load(bundle.content())})
      ASSERT_TRUE(loaded.ok()) << loaded.message();
    for (auto [batch, sequence] : {std::pair<int64_t, int64_t>{2, 32}, {1, 19}})
      check(path.stem().string() + ", " + std::to_string(batch) + " x " + std::to_string(sequence),
            compareBlocks(bundle, *tested, *reference, batch, sequence), toleranceOf(bundle, 1));
  }
}

struct Steps {
  std::vector<std::vector<float>> gradients, updated;
  std::vector<float> losses, logits;
};

// A gradient, an update of SGD and the loss after it. B is zero at first, so that all gradients of A would be, too.
Steps takeSteps(mebp_bundle *bundle, mebp_session_options options) {
  constexpr uint32_t batch = 2, sequence = 23;
  options.optimizer = MEBP_SGD;
  options.learning_rate = 0.1;
  OpenSession session(bundle, options);
  mebp_bundle_info info;
  mebp_bundle_get_info(bundle, &info, nullptr);
  for (uint32_t i = 0; i < info.trainables; ++i) {
    std::vector<float> values(elementsOf(bundle, i));
    for (size_t element = 0; element < values.size(); ++element)
      values[element] = 0.05f * format::randomNormal(4, i, element);
    EXPECT_EQ(mebp_session_write_trainable(session.handle, i, values.data(), values.size(), nullptr), MEBP_OK);
  }
  std::vector<int32_t> ids(batch * sequence);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(format::randomBits(5, 0, i) % info.vocabulary);
  Steps steps;
  double losses[2] = {};
  mebp_error error = {};
  EXPECT_EQ(mebp_session_gradients(session.handle, ids.data(), ids.data(), batch, sequence, &losses[0], &error),
            MEBP_OK)
      << error.message;
  steps.gradients = gradientsOf(bundle, session.handle);
  mebp_step_result result;
  EXPECT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), batch, sequence, &result, &error), MEBP_OK)
      << error.message;
  steps.updated = trainablesOf(bundle, session.handle);
  EXPECT_EQ(mebp_session_loss(session.handle, ids.data(), ids.data(), batch, sequence, &losses[1], &error), MEBP_OK)
      << error.message;
  steps.losses = {static_cast<float>(losses[0]), static_cast<float>(losses[1])};
  steps.logits.resize(batch * sequence * info.vocabulary);
  EXPECT_EQ(mebp_session_logits(session.handle, ids.data(), batch, sequence, 0, sequence, steps.logits.data(), &error),
            MEBP_OK)
      << error.message;
  return steps;
}

TEST_F(BackendBundles, AgreeInWholeSteps) {
  for (const std::filesystem::path &path : paths) {
    OpenBundle opened(path);
    mebp_session_options options = defaultOptions();
    options.backend = numberUnderTest;
    Steps ours = takeSteps(opened.handle, options);
    options = defaultOptions();
    options.reference_kernels = true;
    Steps theirs = takeSteps(opened.handle, options);
    std::vector<Difference> differences = {{"losses", relativeError(ours.losses, theirs.losses)},
                                           {"logits", relativeError(ours.logits, theirs.logits)}};
    for (size_t i = 0; i < ours.gradients.size(); ++i) {
      const std::string &name = opened.handle->bundle.content().trainables(static_cast<int>(i)).name();
      differences.push_back({"gradient of " + name, relativeError(ours.gradients[i], theirs.gradients[i])});
      differences.push_back({"updated " + name, relativeError(ours.updated[i], theirs.updated[i])});
    }
    const Bundle &bundle = opened.handle->bundle;
    check(path.stem().string(), differences, toleranceOf(bundle, bundle.content().blocks_size() - 2));
  }
}

struct Text {
  std::vector<int32_t> tokens; // of each sequence, one after the other
  std::vector<float> logits;   // of all steps
};

// A prompt, then the likeliest tokens of one sequence, then of two that go on from it; or after those of another text.
Text generate(mebp_bundle *bundle, const mebp_session_options &options, const Text *along = nullptr) {
  constexpr uint32_t prompt = 45, alone = 40, together = 12;
  OpenSession session(bundle, options);
  mebp_bundle_info info;
  mebp_bundle_get_info(bundle, &info, nullptr);
  mebp_generation *generation = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_generation_create(session.handle, &generation, &error), MEBP_OK) << error.message;
  std::vector<int32_t> ids(prompt);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(format::randomBits(9, 0, i) % info.vocabulary);
  Text text;
  uint32_t batch = 1;
  for (uint32_t step = 0; step < alone + together; ++step) {
    if (step == alone) {
      batch = 2;
      EXPECT_EQ(mebp_generation_spread(generation, batch, &error), MEBP_OK) << error.message;
      ids = {ids[0], static_cast<int32_t>((ids[0] + 1) % static_cast<int32_t>(info.vocabulary))};
    }
    std::vector<float> logits(batch * info.vocabulary);
    EXPECT_EQ(mebp_generation_append(generation, ids.data(), batch, static_cast<uint32_t>(ids.size()) / batch,
                                     logits.data(), &error),
              MEBP_OK)
        << error.message;
    ids.resize(batch);
    for (uint32_t item = 0; item < batch; ++item) {
      auto first = logits.begin() + item * static_cast<int64_t>(info.vocabulary);
      ids[item] = static_cast<int32_t>(std::max_element(first, first + info.vocabulary) - first);
    }
    text.tokens.insert(text.tokens.end(), ids.begin(), ids.end());
    text.logits.insert(text.logits.end(), logits.begin(), logits.end());
    if (along)
      std::copy_n(along->tokens.begin() + static_cast<int64_t>(text.tokens.size() - batch), batch, ids.begin());
  }
  mebp_generation_destroy(generation);
  return text;
}

TEST_F(BackendBundles, AgreeInGeneratedText) {
  for (const std::filesystem::path &path : paths) {
    OpenBundle opened(path);
    mebp_session_options options = defaultOptions();
    options.reference_kernels = true;
    const Text theirs = generate(opened.handle, options);
    options = defaultOptions();
    options.backend = numberUnderTest;
    const Text ours = generate(opened.handle, options, &theirs);
    const Bundle &bundle = opened.handle->bundle;
    check(path.stem().string() + ", text", {{"logits", relativeError(ours.logits, theirs.logits)}},
          toleranceOf(bundle, bundle.content().blocks_size() - 2));
    // In bf16 two tokens may be as likely as each other.
    if (bundle.model().activation() == format::F32) {
      EXPECT_EQ(ours.tokens, theirs.tokens) << path.stem();
    }
  }
}

} // namespace
