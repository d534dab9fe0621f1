// SPDX-License-Identifier: Apache-2.0
//
// How far a text goes back: where a window has let go of what came before, and where a recurrence has a copy of its
// state. What is computed from there has the bits of a text that never went further.
#include "support/open_generation.h"

using namespace mebp::test;

namespace {

constexpr uint32_t lastTokens = 16; // of a prompt, in passes that begin there

std::vector<float> anew(const std::vector<int32_t> &ids) { return OpenGeneration(recurrentBundle()).append(ids); }

// Where the last pass of a prompt begins, which takes up to tinyRows tokens, and two at least.
uint32_t lastPassOf(uint32_t before, uint32_t count) {
  const uint32_t apart = count >= lastTokens + 2 ? count - lastTokens : 0;
  uint32_t left = count - apart, first = before + apart;
  while (left > tinySequence) {
    const uint32_t taken = left - tinySequence == 1 ? tinySequence - 1 : tinySequence;
    first += taken;
    left -= taken;
  }
  return first;
}

} // namespace

TEST(Rewind, GoesAsFarAsTheWindowIsThere) {
  const std::vector<int32_t> ids = tinyTokens(90);
  OpenGeneration it(generatingBundle()), other(generatingBundle());
  it.append(part(ids, 0, 80));
  EXPECT_EQ(it.rewind(85), 80u);
  EXPECT_EQ(it.rewind(80 - (tinyRing - tinyWindow)), 80 - (tinyRing - tinyWindow));
  EXPECT_EQ(it.append(part(ids, 19, 71)),
            other.append(ids)); // the last token of what is kept is another one's business
  EXPECT_EQ(it.rewind(20), 0u);
  EXPECT_EQ(it.append(ids), (other.rewind(0), other.append(ids)));
}

// Of prompts of every length: to the copy from any later place, to the beginning from any earlier one.
TEST(Rewind, OfARecurrenceIsToItsCopy) {
  for (uint32_t count = 2; count < 45; ++count) {
    const std::vector<int32_t> ids = tinyTokens(count + 8), prompt = part(ids, 0, count);
    const std::vector<float> expected = anew(prompt);
    OpenGeneration it(recurrentBundle());
    const uint32_t copy = lastPassOf(0, count);
    for (uint32_t answer = 0; answer < 4; ++answer) { // to one prompt
      EXPECT_EQ(it.append(part(ids, it.positions(), count - it.positions())), expected) << count;
      for (uint32_t i = 0; i < answer; ++i)
        it.append({ids[count + i]});
      EXPECT_EQ(it.rewind(count - 1 + answer / 2), copy) << count;
    }
    if (copy > 0) {
      EXPECT_EQ(it.rewind(copy), copy);
      EXPECT_EQ(it.rewind(copy - 1), 0u) << count;
      EXPECT_EQ(it.append(prompt), expected) << count;
    }
  }
}

// The next turn repeats what was said up to the copy, or all of it.
TEST(Rewind, AConversationGoesOn) {
  const std::vector<int32_t> ids = tinyTokens(90);
  for (uint32_t second : {2u, 7u, 18u, 30u}) {
    OpenGeneration it(recurrentBundle());
    it.append(part(ids, 0, 40));
    it.append({1}), it.append({2}); // an answer that the next prompt leaves out
    const uint32_t kept = it.rewind(39);
    EXPECT_EQ(kept, lastPassOf(0, 40));
    EXPECT_EQ(it.append(part(ids, kept, 40 + second - kept)), anew(part(ids, 0, 40 + second))) << second;
    EXPECT_EQ(it.append(part(ids, 40 + second, 20)), anew(part(ids, 0, 60 + second))) << second;
    EXPECT_EQ(it.rewind(59 + second), lastPassOf(40 + second, 20)) << second;
  }
}

TEST(Rewind, CopiesOfASequenceGoBackTogether) {
  const std::vector<int32_t> ids = tinyTokens(30);
  OpenGeneration it(recurrentBundle());
  const std::vector<float> expected = it.append(ids);
  ASSERT_EQ(mebp_generation_spread(it.handle, 2, nullptr), MEBP_OK);
  const std::vector<float> first = it.append({3, 7}, 2);
  const uint32_t kept = it.rewind(29);
  ASSERT_EQ(kept, lastPassOf(0, 30));
  std::vector<int32_t> both = part(ids, kept, 30 - kept);
  both.insert(both.end(), both.begin(), both.end());
  const std::vector<float> again = it.append(both, 2);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), again.begin()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), again.begin() + tinyVocabulary));
  EXPECT_EQ(it.append({3, 7}, 2), first);
}

// Some of its states may have taken the tokens by then.
TEST(Rewind, ARecurrenceBeginsAnewWhereItIsCancelled) {
  OpenGeneration it(recurrentBundle());
  const std::vector<int32_t> ids = tinyTokens(20);
  const std::vector<float> whole = it.append(ids);
  const auto expectNothing = [&] {
    EXPECT_EQ(it.code, MEBP_CANCELLED);
    EXPECT_EQ(it.positions(), 0u);
    EXPECT_EQ(it.append(ids), whole);
  };
  mebp_session_cancel(it.session.handle);
  it.append(tinyTokens(3));
  expectNothing();
  mebp_session_cancel(it.session.handle);
  it.draft(tinyTokens(3));
  expectNothing();
  it.draft(tinyTokens(3));
  mebp_session_cancel(it.session.handle);
  uint32_t kept = ~0u;
  it.code = mebp_generation_rewind(it.handle, 21, &kept, &it.error);
  EXPECT_EQ(kept, 0u);
  expectNothing();
}

// Every draft behind prompts of every length, of which every number of tokens is kept.
TEST(Rewind, OfADraftHasTheBitsOfOneTokenAfterAnother) {
  const std::vector<int32_t> ids = tinyTokens(60);
  for (uint32_t prompt = 0; prompt < 24; ++prompt) {
    OpenGeneration drafted(recurrentBundle()), alone(recurrentBundle());
    for (uint32_t count = 1; count <= tinySequence; ++count)
      for (uint32_t kept = 1; kept <= count; ++kept) {
        drafted.rewind(0), alone.rewind(0);
        if (prompt)
          drafted.append(part(ids, 0, prompt)), alone.append(part(ids, 0, prompt));
        for (uint32_t pass = 0, first = prompt; pass < 3; ++pass, first += kept) {
          ASSERT_EQ(drafted.draft(part(ids, first, count)), MEBP_OK) << drafted.error.message;
          for (uint32_t i = 0; i < kept; ++i)
            EXPECT_EQ(drafted.logits(i), alone.append({ids[first + i]})) << prompt << " " << count << " " << kept;
          EXPECT_EQ(drafted.rewind(first + kept), first + kept);
          drafted.logits(0);
          EXPECT_EQ(drafted.code, MEBP_OUT_OF_RANGE); // there are none of a draft that was cut off
        }
        EXPECT_EQ(drafted.append({4}), alone.append({4})) << prompt << " " << count << " " << kept;
      }
  }
}

// A draft takes the place of the prompt's copy, and is all or nothing where the text goes back before it.
TEST(Rewind, BeforeADraftIsToTheBeginning) {
  const std::vector<int32_t> ids = tinyTokens(30);
  OpenGeneration it(recurrentBundle());
  it.append(ids);
  it.draft({1, 2, 3});
  EXPECT_EQ(it.rewind(30), 30u);
  const std::vector<float> next = it.append({5});
  it.rewind(30);
  EXPECT_EQ(it.append({5}), next);
  it.draft({1, 2, 3});
  EXPECT_EQ(it.rewind(30), 0u);
}
