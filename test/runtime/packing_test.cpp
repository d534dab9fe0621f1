// SPDX-License-Identifier: Apache-2.0
//
// Several samples in a row of tokens: loss and gradients are those of the samples alone.
#include <cmath>
#include <gtest/gtest.h>

#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// Two rows of five: samples of two and of three tokens, and of one, three and one.
const std::vector<int32_t> starts = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};

class Packing : public ::testing::TestWithParam<uint32_t> {
protected:
  explicit Packing() : folder(tinyBundle(optionsOf(GetParam()))), bundle(folder.path()) {}

  static TinyOptions optionsOf(uint32_t chunk) {
    TinyOptions options;
    options.packs = true, options.chunk = chunk;
    return options;
  }
  static mebp_session_options sessionOptions() {
    mebp_session_options options = defaultOptions();
    options.return_gradients = options.accumulate = true;
    return options;
  }

  BundleFolder folder;
  OpenBundle bundle;
  OpenSession session{bundle.handle, sessionOptions()};
  std::vector<int32_t> ids = tinyTokens(10), labels = tinyTokens(10, 2);
  mebp_batch whole = {ids.data(), labels.data(), 2, 5};
  mebp_error error = {};
};

std::vector<float> readGradient(mebp_bundle *bundle, mebp_session *session, uint32_t index) {
  mebp_tensor_info info;
  mebp_tensor_info_init(&info);
  EXPECT_EQ(mebp_bundle_gradient_info(bundle, index, &info, nullptr), MEBP_OK);
  std::vector<float> values(info.rows * info.columns);
  EXPECT_EQ(mebp_session_read_gradient(session, index, values.data(), values.size(), nullptr), MEBP_OK);
  return values;
}

} // namespace

TEST_P(Packing, IsTheMeanOverTheSamples) {
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  ASSERT_EQ(mebp_bundle_get_info(bundle.handle, &info, nullptr), MEBP_OK);
  EXPECT_TRUE(info.packs);
  EXPECT_STREQ(info.task, "causal");
  double packed = 0, loss = 0;
  ASSERT_EQ(mebp_session_packed_gradients(session.handle, &whole, starts.data(), &packed, &error), MEBP_OK)
      << error.message;
  std::vector<std::vector<float>> gradients, sums;
  for (uint32_t i = 0; i < info.trainables; ++i) {
    gradients.push_back(readGradient(bundle.handle, session.handle, i));
    sums.emplace_back(gradients.back().size());
  }
  ASSERT_EQ(mebp_session_packed_loss(session.handle, &whole, starts.data(), &loss, &error), MEBP_OK);
  EXPECT_DOUBLE_EQ(loss, packed);

  double sum = 0;
  constexpr double all = 1 + 2 + 2; // labels that something predicts
  for (auto [first, count] : {std::pair{0, 2}, {2, 3}, {6, 3}}) {
    double alone = 0;
    const auto length = static_cast<uint32_t>(count);
    ASSERT_EQ(
        mebp_session_gradients(session.handle, ids.data() + first, labels.data() + first, 1, length, &alone, &error),
        MEBP_OK)
        << error.message;
    sum += alone * (count - 1);
    for (uint32_t i = 0; i < info.trainables; ++i) {
      const std::vector<float> part = readGradient(bundle.handle, session.handle, i);
      for (size_t j = 0; j < part.size(); ++j)
        sums[i][j] += part[j] * static_cast<float>((count - 1) / all);
    }
  }
  EXPECT_NEAR(packed, sum / all, 1e-6);
  for (uint32_t i = 0; i < info.trainables; ++i)
    for (size_t j = 0; j < sums[i].size(); ++j)
      EXPECT_NEAR(gradients[i][j], sums[i][j], 1e-6) << i << ", " << j;
}

TEST_P(Packing, IsOfEachMicroBatchByItself) {
  const mebp_batch batches[] = {whole, whole};
  const int32_t *given[] = {starts.data(), nullptr};
  mebp_step_result result;
  mebp_step_result_init(&result);
  ASSERT_EQ(mebp_session_packed_step(session.handle, batches, given, 2, &result, &error), MEBP_OK) << error.message;
  EXPECT_EQ(result.tokens, 5u + 8u);
}

TEST_P(Packing, RefusesStartsThatAreNone) {
  for (auto [place, value] : {std::pair{0, 1}, {3, 0}, {4, 3}, {5, -1}, {7, 2000000000}}) {
    std::vector<int32_t> wrong = starts;
    wrong[static_cast<size_t>(place)] = value;
    double loss = 0;
    if (value == 3) // where a sample starts that has no first token
      wrong[3] = 2;
    EXPECT_EQ(mebp_session_packed_loss(session.handle, &whole, wrong.data(), &loss, &error), MEBP_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.message).find("a sample starts there"), std::string::npos) << error.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, Packing, ::testing::Values(0u, 2u));

TEST(PackingRefusals, WithoutThePort) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle bundle(folder.path());
  OpenSession session(bundle.handle, defaultOptions());
  const std::vector<int32_t> ids = tinyTokens(10);
  const mebp_batch batch = {ids.data(), ids.data(), 2, 5};
  double loss = 0;
  mebp_error error;
  EXPECT_EQ(mebp_session_packed_loss(session.handle, &batch, starts.data(), &loss, &error), MEBP_UNSUPPORTED);
  EXPECT_STREQ(error.message, "the bundle cannot take several samples in a row; compile it with --packing");
  EXPECT_EQ(mebp_session_packed_loss(session.handle, nullptr, starts.data(), &loss, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_packed_gradients(session.handle, nullptr, starts.data(), &loss, &error),
            MEBP_INVALID_ARGUMENT);
}
