// SPDX-License-Identifier: Apache-2.0
//
// Gradients that are summed in a binary tree over the numbers of micro-batches: parts of a step that several sessions
// make are nodes of one session's tree, bit for bit.
#include <memory>

#include "format/random.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

using Values = std::vector<std::vector<float>>;

// Rows of random lengths, some without a label that counts.
struct MicroBatches {
  MicroBatches(uint32_t count, uint64_t seed) {
    for (uint32_t i = 0; i < count; ++i) {
      const auto sequence = static_cast<uint32_t>(2 + format::randomBits(seed, 1, i) % (tinySequence - 1));
      ids.push_back(tinyTokens(sequence, 100 * seed + i));
      labels.push_back(ids.back());
      if (i && format::randomBits(seed, 2, i) % 3 == 0)
        labels.back().assign(sequence, -100);
      all += labels.back().back() == -100 ? 0 : sequence - 1;
    }
    for (uint32_t i = 0; i < count; ++i)
      views.push_back({ids[i].data(), labels[i].data(), 1, static_cast<uint32_t>(ids[i].size())});
  }

  std::vector<std::vector<int32_t>> ids, labels;
  std::vector<mebp_batch> views;
  uint64_t all = 0; // labels that count
};

class Tree : public BundleTest {
protected:
  static mebp_session_options optionsOf(uint32_t batches) {
    mebp_session_options options = defaultOptions();
    options.optimizer = MEBP_SGD;
    options.learning_rate = 1;
    options.return_gradients = false;
    options.accumulate = true;
    options.tree_batches = batches;
    return options;
  }

  // As these, with sums that go into `found`.
  mebp_session_options gatheringOptions(uint32_t batches, Values &found) {
    mebp_bundle_info info;
    mebp_bundle_get_info(bundle.handle, &info, nullptr);
    found.resize(info.trainables);
    mebp_session_options options = optionsOf(batches);
    options.on_gradient = [](void *user, uint32_t trainable, float *gradient, uint64_t elements, bool *) {
      static_cast<Values *>(user)->at(trainable).assign(gradient, gradient + elements);
      return MEBP_OK;
    };
    options.gradient_user = &found;
    return options;
  }

  // The sums of micro-batches from `first` on, as a new session offers them.
  Values sums(const MicroBatches &batches, uint32_t first, uint32_t count) {
    Values found;
    OpenSession session(bundle.handle, gatheringOptions(count, found));
    mebp_step_part part;
    mebp_step_part_init(&part);
    part.labels = batches.all;
    part.batches = static_cast<uint32_t>(batches.views.size());
    part.first_row = first;
    mebp_step_result result;
    EXPECT_EQ(mebp_session_step_part(session.handle, &batches.views[first], nullptr, count, &part, &result, &error),
              MEBP_OK)
        << error.message;
    loss += result.loss;
    return found;
  }

  // Those of the micro-batch `number` of a step: none of some, and coefficients that no sequence has in common. The
  // first one's may be halves, with a factor of two that comes when the next one is open.
  void addSequences(mebp_session *session, uint64_t step, uint32_t number, bool isFactorLate = true) {
    const uint64_t seed = 100 * step + number;
    const uint32_t count = number ? static_cast<uint32_t>(format::randomBits(seed, 1, 0) % 4) : 1;
    for (uint32_t i = 0; i < count; ++i) {
      const auto sequence = static_cast<uint32_t>(2 + format::randomBits(seed, 2, i) % (tinySequence - 1));
      const std::vector<int32_t> ids = tinyTokens(sequence, 10 * seed + i);
      std::vector<float> logProbabilities(sequence), all(sequence, 0.1f * static_cast<float>(i + 1));
      mebp_scores scores;
      mebp_scores_init(&scores);
      scores.log_probabilities = logProbabilities.data();
      ASSERT_EQ(mebp_session_begin_sequence(session, ids.data(), ids.data(), 1, sequence, nullptr, &scores, &error),
                MEBP_OK)
          << error.message;
      const bool isPending = isFactorLate && i == 0 && count > 1;
      if (isFactorLate && i == 1) {
        ASSERT_EQ(mebp_session_settle(session, 2, &error), MEBP_OK) << error.message;
      }
      mebp_coefficients coefficients;
      mebp_coefficients_init(&coefficients);
      coefficients.log_probabilities = all.data();
      ASSERT_EQ(mebp_session_end_sequence(session, &coefficients, isPending, &error), MEBP_OK) << error.message;
    }
  }

  Values sumsOfSequences(uint64_t step, uint32_t first, uint32_t count) {
    Values found;
    OpenSession session(bundle.handle, gatheringOptions(count, found));
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(mebp_session_begin_batch(session.handle, i, count, &error), MEBP_OK) << error.message;
      addSequences(session.handle, step, first + i);
    }
    mebp_step_result result;
    EXPECT_EQ(mebp_session_apply(session.handle, &result, &error), MEBP_OK) << error.message;
    return found;
  }

  double loss = 0; // of all parts
};

void add(Values &earlier, const Values &later) {
  for (size_t i = 0; i < earlier.size(); ++i)
    for (size_t j = 0; j < earlier[i].size(); ++j)
      earlier[i][j] += later[i][j];
}

// Neighbours first, then pairs of them, and what is left, the latest first.
Values joined(std::vector<Values> parts) {
  std::vector<Values> open;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    open.push_back(std::move(parts[i]));
    for (uint32_t rest = i; open.size() > 1 && (rest & 1 || i + 1 == parts.size()); rest >>= 1) {
      add(open[open.size() - 2], open.back());
      open.pop_back();
    }
  }
  return open.front();
}

TEST_F(Tree, PartsOfAPowerOfTwoAreNodes) {
  for (uint32_t count = 1; count <= 12; ++count) {
    const MicroBatches batches(count, count);
    loss = 0;
    const Values whole = sums(batches, 0, count);
    const double ofWhole = loss;
    for (uint32_t size = 1; size <= count; size *= 2) {
      if (count % size)
        continue;
      std::vector<Values> parts;
      loss = 0;
      for (uint32_t first = 0; first < count; first += size)
        parts.push_back(sums(batches, first, size));
      EXPECT_EQ(joined(parts), whole) << size << " of " << count;
      EXPECT_NEAR(loss, ofWhole, 1e-9);
    }
  }
}

TEST_F(Tree, IsTheSumInAnotherOrder) {
  const MicroBatches batches(7, 3);
  Values steps[2];
  for (uint32_t inTree : {0u, 7u}) {
    OpenSession session(bundle.handle, optionsOf(inTree));
    mebp_step_result result;
    ASSERT_EQ(mebp_session_step_batches(session.handle, batches.views.data(), 7, &result, &error), MEBP_OK);
    steps[inTree != 0] = trainablesOf(bundle.handle, session.handle);
  }
  EXPECT_NE(steps[0], steps[1]);
  for (size_t i = 0; i < steps[0].size(); ++i)
    for (size_t j = 0; j < steps[0][i].size(); ++j)
      EXPECT_NEAR(steps[0][i][j], steps[1][i][j], 1e-6);
}

TEST_F(Tree, PartsOfAStepOverSequencesAreNodes) {
  for (uint32_t count = 1; count <= 12; ++count) {
    const Values whole = sumsOfSequences(count, 0, count);
    for (uint32_t size = 1; size <= count; size *= 2) {
      if (count % size)
        continue;
      std::vector<Values> parts;
      for (uint32_t first = 0; first < count; first += size)
        parts.push_back(sumsOfSequences(count, first, size));
      EXPECT_EQ(joined(parts), whole) << size << " of " << count;
    }
  }
}

TEST_F(Tree, OfSequencesIsTheirSumInAnotherOrder) {
  Values steps[2];
  for (uint32_t inTree : {0u, 7u}) {
    OpenSession session(bundle.handle, optionsOf(inTree));
    for (uint32_t i = 0; i < 7; ++i) {
      if (inTree) {
        ASSERT_EQ(mebp_session_begin_batch(session.handle, i, 7, &error), MEBP_OK) << error.message;
      }
      addSequences(session.handle, 7, i, /*isFactorLate=*/false);
    }
    mebp_step_result result;
    ASSERT_EQ(mebp_session_apply(session.handle, &result, &error), MEBP_OK) << error.message;
    steps[inTree != 0] = trainablesOf(bundle.handle, session.handle);
  }
  EXPECT_NE(steps[0], steps[1]);
  for (size_t i = 0; i < steps[0].size(); ++i)
    for (size_t j = 0; j < steps[0][i].size(); ++j)
      EXPECT_NEAR(steps[0][i][j], steps[1][i][j], 1e-5);
}

TEST_F(Tree, TakesTheMemoryOfItsOpenSums) {
  auto bytes = [&](uint32_t batches) {
    const mebp_session_options options = optionsOf(batches);
    return mebp_session_memory_bytes(bundle.handle, &options);
  };
  EXPECT_EQ(bytes(1), bytes(0));
  const uint64_t sum = bytes(2) - bytes(1);
  EXPECT_GT(sum, 0u);
  EXPECT_EQ(bytes(3), bytes(2));
  EXPECT_EQ(bytes(8), bytes(1) + 3 * sum);
}

TEST_F(Tree, RefusesWhatItCannotBe) {
  const MicroBatches batches(4, 1);
  mebp_step_result result;
  OpenSession session(bundle.handle, optionsOf(2));
  expectRefusal(mebp_session_step_batches(session.handle, batches.views.data(), 4, &result, &error),
                "a step of 4 micro-batches, and tree_batches is 2; create the session with more");
  mebp_step_part part;
  mebp_step_part_init(&part);
  part.batches = 1;
  expectRefusal(mebp_session_step_part(session.handle, batches.views.data(), nullptr, 2, &part, &result, &error),
                "the part of a step has 2 micro-batches and all of it 1");
  part.batches = 4;
  part.labels = 1;
  expectRefusal(mebp_session_step_part(session.handle, batches.views.data(), nullptr, 2, &part, &result, &error),
                "labels and all of it 1; give the sum over all");
  mebp_session *none = nullptr;
  mebp_session_options options = optionsOf(2);
  options.accumulate = false;
  expectRefusal(mebp_session_create(bundle.handle, &options, &none, &error), "give accumulate and no in_flight");
  expectRefusal(
      mebp_session_begin_batch(session.handle, 0, 3, &error),
      "a step over sequences has 3 micro-batches, and tree_batches is 2; create the session with as many, and "
      "at least one");
  const char *notNext = "micro-batch 1 of 2 does not come next; begin them from 0 on, one after the other";
  expectRefusal(mebp_session_begin_batch(session.handle, 1, 2, &error), notNext);
  ASSERT_EQ(mebp_session_begin_batch(session.handle, 0, 2, &error), MEBP_OK);
  expectRefusal(mebp_session_apply(session.handle, &result, &error),
                "micro-batch 0 of 2 is not the step's last; begin the others before the update");
  ASSERT_EQ(mebp_session_discard(session.handle, &error), MEBP_OK);
  expectRefusal(mebp_session_begin_batch(session.handle, 1, 2, &error), notNext);
  expectRefusal(mebp_session_apply(session.handle, &result, &error), "there is no gradient of a sequence to apply");
  options = optionsOf(1u << 30);
  expectRefusal(mebp_session_create(bundle.handle, &options, &none, &error), "more than the 1048576");
}

} // namespace
