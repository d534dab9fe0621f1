// SPDX-License-Identifier: Apache-2.0
//
// Generation over a model written by hand: what it refuses, in a bundle and in a call, and what copies of a
// sequence keep.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include "format/kernels.h"
#include "format/random.h"
#include "support/open_generation.h"
#include "support/program_builder.h"

using namespace mebp;
using namespace mebp::test;

namespace {

enum { embed = 0, layer = 1, head = 2 };

format::Program &decodeOf(format::Bundle &bundle, int which) {
  return *bundle.mutable_programs(bundle.programs_size() - 3 + which);
}
format::Kernel &kernelOf(format::Bundle &bundle, int number) {
  return *decodeOf(bundle, layer).mutable_steps(number)->mutable_kernel();
}
format::Value &valueOf(format::Bundle &bundle, int which, int32_t value) {
  return *decodeOf(bundle, which).mutable_values(value);
}
void setAttribute(format::Kernel &kernel, const char *name, double number) {
  for (format::Attribute &attribute : *kernel.mutable_attributes())
    if (attribute.name() == name)
      return attribute.set_number(number);
  format::Attribute *added = kernel.add_attributes();
  added->set_name(name);
  added->set_number(number);
}

struct Refusal {
  const char *message;
  std::function<void(format::Bundle &)> change;
};

} // namespace

TEST(Generate, RefusesEachHostileBundleByName) {
  const Refusal refusals[] = {
      {"it has no decode program", [](format::Bundle &b) { b.mutable_blocks(1)->mutable_programs()->RemoveLast(); }},
      {"it has no decode_logits program",
       [](format::Bundle &b) { b.mutable_blocks()->rbegin()->mutable_programs()->RemoveLast(); }},
      {"impossible size", [](format::Bundle &b) { b.mutable_model()->set_positions(1u << 30); }},
      {"'state' has no room for a capacity of 128",
       [](format::Bundle &b) { setAttribute(kernelOf(b, 1), "capacity", 128); }},
      {"'k' has no room for a capacity of 32", [](format::Bundle &b) { setAttribute(kernelOf(b, 3), "capacity", 32); }},
      {"'state' is not for all tokens", [](format::Bundle &b) { setAttribute(kernelOf(b, 1), "capacity", 0); }},
      {"'k' is not for all tokens", [](format::Bundle &b) { setAttribute(kernelOf(b, 3), "capacity", 0); }},
      {"'k' keeps too few positions", [](format::Bundle &b) { setAttribute(kernelOf(b, 3), "window", 60); }},
      {"'linear' has a capacity, but no state",
       [](format::Bundle &b) { setAttribute(kernelOf(b, 4), "capacity", tinyRing); }},
      {"keeps too few positions, or no whole tiles of them",
       [](format::Bundle &b) {
         for (format::Value &value : *decodeOf(b, layer).mutable_values())
           if (value.rows() == tinyRing * tinyBatch)
             value.set_rows(50 * tinyBatch);
         for (int kernel : {1, 2, 3})
           setAttribute(kernelOf(b, kernel), "capacity", 50);
       }},
      {"the state 'k' is extended more than once",
       [](format::Bundle &b) {
         kernelOf(b, 2).set_operands(0, kernelOf(b, 1).operands(0)),
             valueOf(b, layer, kernelOf(b, 2).results(0))
                 .mutable_placement()
                 ->set_alias(static_cast<uint32_t>(kernelOf(b, 1).operands(0)));
       }},
      {"'append' does not accumulate into its operand 'state'",
       [](format::Bundle &b) {
         valueOf(b, layer, kernelOf(b, 2).results(0))
             .mutable_placement()
             ->set_alias(static_cast<uint32_t>(kernelOf(b, 1).operands(0)));
       }},
      {"is written, but it is neither an output nor in the arena",
       [](format::Bundle &b) { decodeOf(b, layer).mutable_inputs(2)->set_kind(format::Port::PARAMETER); }},
      {"it has two ports 'k' of one kind",
       [](format::Bundle &b) { decodeOf(b, layer).mutable_inputs(3)->set_name("k"); }},
      {"does not fit the value that it is an alias of",
       [](format::Bundle &b) { valueOf(b, layer, kernelOf(b, 1).operands(0)).set_rows(tinyRing * tinyBatch + 1); }},
      {"it has the flow 'hidden', which is of another type there",
       [](format::Bundle &b) {
         for (format::Value &value : *decodeOf(b, embed).mutable_values())
           if (value.row_extent().kind() == format::Extent::TOKENS)
             value.set_rows(tinyRows + 1);
       }},
      {"it has more tokens than batch * sequence",
       [](format::Bundle &b) {
         for (format::Value &value : *decodeOf(b, head).mutable_values())
           if (value.row_extent().kind() == format::Extent::TOKENS)
             value.set_rows(11);
       }},
      {"it is for 1 tokens",
       [](format::Bundle &b) {
         for (format::Value &value : *decodeOf(b, head).mutable_values())
           if (value.row_extent().kind() == format::Extent::TOKENS)
             value.set_rows(1);
       }},
  };
  for (const Refusal &refusal : refusals) {
    format::Bundle changed = generatingBundle();
    refusal.change(changed);
    BundleFolder folder(changed);
    OpenBundle opened(folder.path());
    EXPECT_NE(opened.code, MEBP_OK) << refusal.message;
    EXPECT_NE(std::string(opened.error.message).find(refusal.message), std::string::npos)
        << refusal.message << "\n  " << opened.error.message;
  }
}

TEST(Generate, RefusesEachInvalidCall) {
  OpenGeneration it(generatingBundle());
  const int32_t one = 1;
  EXPECT_EQ(mebp_generation_append(it.handle, &one, 1, 0, nullptr, &it.error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(it.error.message, "a step needs at least one token, not 1 x 0");
  it.append(tinyTokens(3), 3);
  EXPECT_NE(std::string(it.error.message).find("3 sequences are more than the 2"), std::string::npos);
  it.append({1, static_cast<int32_t>(tinyVocabulary)});
  EXPECT_STREQ(it.error.message, "token 11 is beyond the vocabulary of 11");
  it.append(tinyTokens(tinyPositions + 1));
  EXPECT_NE(std::string(it.error.message).find("101 tokens are more than the 100"), std::string::npos);
  EXPECT_EQ(mebp_generation_spread(it.handle, 2, &it.error), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_generation_positions(it.handle), 0u);
  it.append(tinyTokens(tinyPositions));
  EXPECT_EQ(it.code, MEBP_OK);
  it.append({1});
  EXPECT_EQ(it.code, MEBP_OUT_OF_RANGE);
  EXPECT_EQ(mebp_generation_append(nullptr, nullptr, 1, 1, nullptr, &it.error), MEBP_INVALID_ARGUMENT);
}

TEST(Generate, KeepsItsSessionFromAPause) {
  OpenGeneration it(generatingBundle());
  const std::string folder = scratchPath();
  EXPECT_EQ(mebp_session_pause(it.session.handle, folder.c_str(), nullptr, 0, &it.error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(it.error.message,
               "a generation of the session has memory of it; destroy that before the session is paused");
  mebp_generation_destroy(std::exchange(it.handle, nullptr));
  EXPECT_EQ(mebp_session_pause(it.session.handle, folder.c_str(), nullptr, 0, &it.error), MEBP_OK);
  std::filesystem::remove_all(folder);
}

TEST(Generate, NeedsABundleThatCan) {
  BundleFolder folder(tinyBundle({}));
  OpenBundle opened(folder.path());
  OpenSession session(opened.handle);
  mebp_generation *made = nullptr;
  EXPECT_EQ(mebp_generation_create(session.handle, &made, &session.error), MEBP_UNSUPPORTED);
  EXPECT_NE(std::string(session.error.message).find("compile it with --generate-len"), std::string::npos);
  const mebp_session_options options = defaultOptions();
  EXPECT_EQ(mebp_generation_memory_bytes(opened.handle, &options), 0u);
}

TEST(Generate, PiecesOfAPromptMakeTheWhole) {
  const std::vector<int32_t> ids = tinyTokens(90);
  const std::vector<float> whole = OpenGeneration(generatingBundle()).append(ids);
  for (size_t piece : {2, 3, 5, 45}) {
    OpenGeneration it(generatingBundle());
    std::vector<float> logits;
    for (size_t done = 0; done < ids.size(); done += piece)
      logits = it.append(part(ids, done, piece));
    EXPECT_EQ(logits, whole) << piece;
  }
}

TEST(Generate, CopiesOfASequenceGoOnAlike) {
  const std::vector<int32_t> ids = tinyTokens(70);
  OpenGeneration it(generatingBundle()), alone(generatingBundle());
  it.append(ids), alone.append(ids);
  ASSERT_EQ(mebp_generation_spread(it.handle, 2, nullptr), MEBP_OK);
  for (int32_t token : {3, 7}) {
    std::vector<float> both = it.append({token, 5}, 2), one = alone.append({token});
    EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin()));
  }
  EXPECT_EQ(mebp_generation_spread(it.handle, 2, nullptr), MEBP_INVALID_ARGUMENT);
}

TEST(Generate, ASessionThatOnlyGeneratesHasRoomForNothingElse) {
  mebp_session_options options = defaultOptions();
  options.generate_only = true;
  OpenGeneration it(generatingBundle(), options);
  const std::vector<int32_t> ids = tinyTokens(5);
  double loss = 0;
  mebp_step_result result;
  std::vector<float> logits(5 * tinyVocabulary);
  EXPECT_EQ(mebp_session_loss(it.session.handle, ids.data(), ids.data(), 1, 5, &loss, nullptr), MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_gradients(it.session.handle, ids.data(), ids.data(), 1, 5, &loss, nullptr),
            MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_step(it.session.handle, ids.data(), ids.data(), 1, 5, &result, nullptr),
            MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(mebp_session_logits(it.session.handle, ids.data(), 1, 5, 0, 5, logits.data(), nullptr),
            MEBP_INVALID_ARGUMENT);
  EXPECT_EQ(it.append(ids), OpenGeneration(generatingBundle()).append(ids));
  const mebp_session_options whole = defaultOptions();
  EXPECT_LT(mebp_session_memory_bytes(it.bundle.handle, &options), mebp_session_memory_bytes(it.bundle.handle, &whole));
}

TEST(Generate, EndsWhereItIsCancelled) {
  OpenGeneration it(generatingBundle());
  mebp_session_cancel(it.session.handle);
  it.append(tinyTokens(50));
  EXPECT_EQ(it.code, MEBP_CANCELLED);
  EXPECT_EQ(mebp_generation_positions(it.handle), 0u);
  it.append(tinyTokens(50));
  EXPECT_EQ(it.code, MEBP_OK);
}

// What opens can be run: whatever the numbers are, nothing outside of the memory is touched (the sanitizers watch).
TEST(Generate, SurvivesNumbersChangedAtRandom) {
  const format::Bundle bundles[] = {generatingBundle(), recurrentBundle()};
  uint64_t opened = 0;
  for (uint64_t trial = 0; trial < 800; ++trial) {
    const format::Bundle &whole = bundles[trial % 2];
    auto draw = [&](uint64_t what, uint64_t below) { return format::randomBits(trial, 17, what) % below; };
    format::Bundle changed = whole;
    format::Program &program = decodeOf(changed, static_cast<int>(draw(0, 3)));
    auto number = static_cast<int32_t>(draw(1, 2 * tinyRing + 4));
    if (draw(2, 3) == 0) {
      format::Value &value = *program.mutable_values(static_cast<int>(draw(3, program.values_size())));
      draw(4, 2) ? value.set_rows(static_cast<uint64_t>(number)) : value.set_columns(static_cast<uint64_t>(number));
    } else {
      format::Kernel &kernel =
          *program.mutable_steps(static_cast<int>(draw(3, program.steps_size())))->mutable_kernel();
      if (kernel.attributes_size() && draw(4, 2))
        kernel.mutable_attributes(static_cast<int>(draw(5, kernel.attributes_size())))->set_number(number);
      else
        kernel.set_operands(static_cast<int>(draw(5, kernel.operands_size())), number % program.values_size());
    }
    BundleFolder folder(changed);
    OpenBundle bundle(folder.path());
    if (bundle.code != MEBP_OK)
      continue;
    ++opened;
    mebp_session_options options = defaultOptions();
    options.allocator.allocate = [](void *, uint64_t bytes, uint64_t alignment) {
      return std::aligned_alloc(alignment, bytes);
    };
    options.allocator.release = [](void *, void *memory, uint64_t) { std::free(memory); };
    OpenSession session(bundle.handle, options);
    mebp_generation *made = nullptr;
    ASSERT_EQ(mebp_generation_create(session.handle, &made, nullptr), MEBP_OK);
    std::vector<int32_t> ids = tinyTokens(2 * tinyPositions);
    std::vector<float> logits(tinyBatch * tinyVocabulary);
    mebp_generation_append(made, ids.data(), 2, tinyPositions - 1, logits.data(), nullptr);
    mebp_generation_append(made, ids.data(), 2, 1, logits.data(), nullptr);
    uint32_t kept = 0;
    mebp_generation_rewind(made, tinyPositions - 1, &kept, nullptr);
    mebp_generation_append(made, ids.data(), 2, 2, logits.data(), nullptr);
    mebp_generation_rewind(made, 0, &kept, nullptr);
    mebp_generation_append(made, ids.data(), 1, 20, logits.data(), nullptr);
    mebp_generation_append_draft(made, ids.data(), 4, nullptr);
    mebp_generation_rewind(made, 22, &kept, nullptr);
    mebp_generation_spread(made, 2, nullptr);
    mebp_generation_append(made, ids.data(), 2, 1, logits.data(), nullptr);
    mebp_generation_destroy(made);
  }
  EXPECT_GT(opened, 40u);
}
