// SPDX-License-Identifier: Apache-2.0
//
// Drafts: what is looked up in a text, and that a pass over a draft has the bits of one token after another.
#include "mebp/mebp.h"

#include <gtest/gtest.h>

#include "support/open_generation.h"

using namespace mebp::test;

namespace {

using Ids = std::vector<int32_t>;

Ids draftOf(const Ids &ids, uint32_t wanted) {
  Ids out(wanted);
  out.resize(mebp_draft_find(ids.data(), static_cast<uint32_t>(ids.size()), out.data(), wanted));
  return out;
}

} // namespace

TEST(Draft, IsWhatFollowedTheLastTokens) {
  EXPECT_EQ(draftOf({1, 2, 3, 4, 9, 1, 2}, 2), (Ids{3, 4}));
  EXPECT_EQ(draftOf({1, 2, 3, 0, 1, 2, 4, 0, 1, 2}, 2), (Ids{4, 0}));    // the last such place
  EXPECT_EQ(draftOf({7, 1, 2, 3, 0, 1, 2, 4, 7, 1, 2}, 2), (Ids{3, 0})); // but the one that has more in common
  EXPECT_EQ(draftOf({5, 1, 2, 1, 2}, 5), (Ids{1, 2, 1, 2, 1}));          // goes on as it has
  EXPECT_EQ(draftOf({3, 3, 3}, 3), (Ids{3, 3, 3}));
}

TEST(Draft, IsEmptyWhereNothingCameBefore) {
  EXPECT_EQ(draftOf({}, 3), Ids());
  EXPECT_EQ(draftOf({1}, 3), Ids());
  EXPECT_EQ(draftOf({1, 1}, 3), Ids());
  EXPECT_EQ(draftOf({1, 2, 3, 2}, 3), Ids()); // one token in common
  EXPECT_EQ(draftOf({1, 2, 1, 2}, 0), Ids());
}

TEST(Draft, HasTheBitsOfOneTokenAfterAnother) {
  const Ids ids = tinyTokens(90);
  OpenGeneration drafted(generatingBundle()), alone(generatingBundle());
  drafted.append({ids.begin(), ids.begin() + 60}), alone.append({ids.begin(), ids.begin() + 60});
  ASSERT_EQ(mebp_generation_draft_limit(drafted.handle), tinySequence);
  for (auto next = ids.begin() + 60; next + tinySequence <= ids.end(); next += tinySequence - 1) {
    ASSERT_EQ(drafted.draft({next, next + tinySequence}), MEBP_OK) << drafted.error.message;
    for (uint32_t i = 0; i + 1 < tinySequence; ++i)
      EXPECT_EQ(drafted.logits(i), alone.append({next[i]}));
    EXPECT_EQ(drafted.rewind(alone.positions()), alone.positions()); // the last one was wrong
  }
}

TEST(Draft, RefusesEachInvalidCall) {
  OpenGeneration it(generatingBundle());
  EXPECT_EQ(it.draft(tinyTokens(tinySequence + 1)), MEBP_OUT_OF_RANGE);
  EXPECT_STREQ(it.error.message, "a draft has 6 tokens, and one pass takes up to 5; give fewer");
  std::vector<float> logits(tinyVocabulary);
  auto logitsOf = [&](uint32_t index) {
    return mebp_generation_draft_logits(it.handle, index, logits.data(), &it.error);
  };
  EXPECT_EQ(logitsOf(0), MEBP_OUT_OF_RANGE);
  EXPECT_STREQ(it.error.message, "the last pass drafted 0 tokens, so there are no logits after number 0");
  EXPECT_EQ(it.draft({1, 2}), MEBP_OK);
  EXPECT_EQ(logitsOf(2), MEBP_OUT_OF_RANGE);
  EXPECT_EQ(logitsOf(1), MEBP_OK);
  it.append({3});
  EXPECT_EQ(logitsOf(1), MEBP_OUT_OF_RANGE); // another pass has been since
  EXPECT_EQ(mebp_generation_spread(it.handle, 2, nullptr), MEBP_OK);
  EXPECT_EQ(it.draft({1, 2}), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_generation_append_draft(it.handle, nullptr, 1, &it.error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_generation_draft_limit(nullptr), 0u);
}
