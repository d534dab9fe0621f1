// SPDX-License-Identifier: Apache-2.0
//
// Text that a device and its server generate has the tokens of one process, though the server forgets what it knew.
#include "split_fixture.h"

namespace mebp::test {
namespace {

class SplitGeneration : public SplitTest {};

// Greedy text of a prompt and twelve tokens; `atToken` comes before each.
std::vector<int32_t> generate(mebp_session *session, const std::function<void(int)> &atToken = [](int) {}) {
  mebp_generation *generation = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_generation_create(session, &generation, &error), MEBP_OK) << error.message;
  std::vector<float> logits(tinyVocabulary);
  std::vector<int32_t> text = tinyTokens(8), next = text;
  for (int i = 0; i < 12; ++i) {
    atToken(i);
    EXPECT_EQ(
        mebp_generation_append(generation, next.data(), 1, static_cast<uint32_t>(next.size()), logits.data(), &error),
        MEBP_OK)
        << error.message;
    next = {static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())};
    text.push_back(next[0]);
  }
  mebp_generation_destroy(generation);
  return text;
}

TEST_F(SplitGeneration, TextGoesOnWithAnotherServer) {
  OpenSession alone(one.handle);
  const std::vector<int32_t> expectedText = generate(alone.handle);
  uint32_t waits = 0;
  {
    Device device(*this, server);
    device.stream.waits = 0;
    EXPECT_EQ(generate(device.session), expectedText);
    waits = device.stream.waits;
  }
  for (uint32_t wait = 0; wait < waits; ++wait) {
    TestServer other(cloud.handle);
    Device device(*this, server);
    device.stream.replaceAtWait(wait, other);
    EXPECT_EQ(generate(device.session), expectedText) << wait;
  }
}

// A step, or another text, in between leaves the server without the keys and values of the first one.
TEST_F(SplitGeneration, TextGoesOnAfterSomethingElse) {
  OpenSession alone(one.handle);
  const std::vector<int32_t> expectedText = generate(alone.handle);
  TestServer other(cloud.handle);
  Device device(*this, server);
  EXPECT_EQ(generate(device.session,
                     [&](int token) {
                       if (token == 3) {
                         EXPECT_EQ(generate(device.session), expectedText);
                       }
                       if (token == 6)
                         device.stream.replace(other);
                       if (token == 6 || token == 9) {
                         double loss;
                         EXPECT_EQ(mebp_session_loss(device.session, ids.data(), ids.data(), tinyBatch, tinySequence,
                                                     &loss, nullptr),
                                   MEBP_OK);
                       }
                     }),
            expectedText);
}

// One prompt continued as two texts: the server computes it for both.
TEST_F(SplitGeneration, SamplesOfOnePrompt) {
  OpenSession alone(one.handle);
  Device device(*this, server);
  std::vector<std::vector<float>> logits;
  for (mebp_session *session : {alone.handle, device.session}) {
    mebp_generation *generation = nullptr;
    ASSERT_EQ(mebp_generation_create(session, &generation, nullptr), MEBP_OK);
    logits.emplace_back(tinyBatch * tinyVocabulary);
    const std::vector<int32_t> next = {3, 4};
    EXPECT_EQ(mebp_generation_append(generation, ids.data(), 1, 5, logits.back().data(), nullptr), MEBP_OK);
    EXPECT_EQ(mebp_generation_spread(generation, 2, nullptr), MEBP_OK);
    EXPECT_EQ(mebp_generation_append(generation, next.data(), 2, 1, logits.back().data(), nullptr), MEBP_OK);
    mebp_generation_destroy(generation);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// Its layers carry states, so device and server go back to copies of the same place.
class SplitRecurrence : public SplitTest {
protected:
  SplitRecurrence() : SplitTest(privateRecurrentBundle()) {}
};

// Greedy text behind a prompt, by drafts whose first `right` tokens of three are as in `text`.
std::vector<int32_t> generateByDrafts(mebp_session *session, const std::vector<int32_t> &text, uint32_t right) {
  mebp_generation *generation = nullptr;
  mebp_error error = {};
  EXPECT_EQ(mebp_generation_create(session, &generation, &error), MEBP_OK) << error.message;
  std::vector<float> logits(tinyVocabulary);
  const auto chosen = [&] {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  std::vector<int32_t> found = tinyTokens(8);
  EXPECT_EQ(mebp_generation_append(generation, found.data(), 1, 8, logits.data(), &error), MEBP_OK) << error.message;
  found.push_back(chosen());
  while (found.size() + 4 <= text.size()) {
    std::vector<int32_t> draft = {found.back(), 0, 0, 0};
    for (uint32_t i = 1; i < 4; ++i)
      draft[i] = (text[found.size() - 1 + i] + (i > right)) % static_cast<int32_t>(tinyVocabulary);
    EXPECT_EQ(mebp_generation_append_draft(generation, draft.data(), 4, &error), MEBP_OK) << error.message;
    for (uint32_t i = 0; i <= right; ++i) {
      EXPECT_EQ(mebp_generation_draft_logits(generation, i, logits.data(), &error), MEBP_OK) << error.message;
      found.push_back(chosen());
    }
    const auto length = static_cast<uint32_t>(found.size() - 1);
    uint32_t kept = 0;
    EXPECT_EQ(mebp_generation_rewind(generation, length, &kept, &error), MEBP_OK) << error.message;
    EXPECT_EQ(kept, length);
  }
  mebp_generation_destroy(generation);
  return found;
}

TEST_F(SplitRecurrence, DraftsGoOnWithAnotherServer) {
  OpenSession alone(one.handle);
  const std::vector<int32_t> text = generate(alone.handle);
  for (uint32_t right : {0, 1, 3}) {
    const std::vector<int32_t> expectedText = generateByDrafts(alone.handle, text, right);
    EXPECT_TRUE(std::equal(expectedText.begin(), expectedText.end(), text.begin()));
    uint32_t waits = 0;
    {
      Device device(*this, server);
      device.stream.waits = 0;
      EXPECT_EQ(generateByDrafts(device.session, text, right), expectedText);
      waits = device.stream.waits;
    }
    for (uint32_t wait = 0; wait < waits; ++wait) {
      TestServer other(cloud.handle);
      Device device(*this, server);
      device.stream.replaceAtWait(wait, other);
      EXPECT_EQ(generateByDrafts(device.session, text, right), expectedText) << right << " " << wait;
    }
  }
}

TEST_F(SplitRecurrence, ADeviceThatAsksForAnotherPlaceIsRefused) {
  Device device(*this, server);
  mebp_generation *generation = nullptr;
  ASSERT_EQ(mebp_generation_create(device.session, &generation, nullptr), MEBP_OK);
  EXPECT_EQ(mebp_generation_append(generation, ids.data(), 1, 5, nullptr, nullptr), MEBP_OK);
  device.stream.sends = [](Frame &frame) {
    if (frame.is(FrameKind::Decode))
      frame.head.position = 2;
  };
  mebp_error error = {};
  EXPECT_EQ(mebp_generation_append(generation, ids.data(), 1, 1, nullptr, &error), MEBP_REFUSED);
  EXPECT_STREQ(error.message, "the device asks a recurrence to go back to where it has no copy of its state");
  mebp_generation_destroy(generation);
}

} // namespace
} // namespace mebp::test
