// SPDX-License-Identifier: Apache-2.0
//
// Sessions that own a part each of the optimizer's state and of the gradients: together they have one session's bits.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "format/lookup.h"
#include "format/optimizers.h"
#include "layout/trainables.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

constexpr uint32_t parts = 2;

// Two sessions, each with a half of a batch. A gradient is averaged when both have it, the norm's squares are put into
// one order, and at a step's end each copies what the other one owns.
class Pair {
public:
  Pair(mebp_bundle *of, const mebp_session_options &options) : bundle(of) {
    mebp_bundle_info info;
    mebp_bundle_get_info(bundle, &info, nullptr);
    squares.resize(info.trainables);
    for (uint32_t i = 0; i < parts; ++i) {
      Member &own = members[i];
      own.pair = this;
      own.owned = std::make_unique<bool[]>(info.trainables);
      EXPECT_EQ(mebp_bundle_own_part(bundle, i, parts, own.owned.get(), nullptr), MEBP_OK);
      own.taken.assign(info.trainables, nullptr);
      mebp_session_options given = options;
      given.owned = own.owned.get();
      given.on_gradient = [](void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
        Member &one = *static_cast<Member *>(user);
        return one.pair->take(one, trainable, gradient, count, *taken);
      };
      given.gradient_user = &own;
      given.gradients_out = 2;
      if (options.clip > 0)
        given.on_norm = [](void *user, const double *tiles, uint64_t count, double *sum) {
          Member &one = *static_cast<Member *>(user);
          return one.pair->addUp(one, tiles, count, *sum);
        };
      given.norm_user = &own;
      own.session = std::make_unique<OpenSession>(bundle, given);
    }
  }

  void step(const std::function<mebp_code(uint32_t index, mebp_session *session, mebp_error *error)> &run) {
    have = 0;
    auto go = [&](uint32_t index) {
      mebp_error error = {};
      EXPECT_EQ(run(index, members[index].session->handle, &error), MEBP_OK) << error.message;
    };
    std::thread second(go, 1);
    go(0);
    second.join();
    for (uint32_t trainable = 0; trainable < squares.size(); ++trainable) {
      const uint32_t owner = members[1].owned[trainable];
      std::memcpy(values(1 - owner, trainable), values(owner, trainable), bytesOf(trainable));
    }
  }

  struct Member {
    Pair *pair = nullptr;
    std::unique_ptr<OpenSession> session;
    std::unique_ptr<bool[]> owned;
    std::vector<float *> taken;
  };
  Member members[parts];

private:
  mebp_code take(Member &own, uint32_t trainable, float *gradient, uint64_t count, bool &taken) {
    Member &other = members[&own == &members[0]];
    taken = true;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!other.taken[trainable]) {
      own.taken[trainable] = gradient;
      return MEBP_OK;
    }
    for (uint64_t i = 0; i < count; ++i)
      gradient[i] = other.taken[trainable][i] = (gradient[i] + other.taken[trainable][i]) / 2;
    other.taken[trainable] = nullptr;
    mebp_session_give_gradient(other.session->handle, trainable, nullptr);
    return mebp_session_give_gradient(own.session->handle, trainable, nullptr);
  }
  // Each trainable of this bundle is smaller than a tile.
  mebp_code addUp(const Member &own, const double *tiles, uint64_t count, double &sum) {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t next = 0;
    for (size_t i = 0; i < squares.size(); ++i)
      if (own.owned[i])
        squares[i] = tiles[next++];
    EXPECT_EQ(next, count);
    ++have;
    changed.notify_all();
    changed.wait(lock, [&] { return have == parts; });
    sum = 0;
    for (double square : squares)
      sum += square;
    return MEBP_OK;
  }
  void *values(uint32_t member, uint32_t trainable) {
    void *found = nullptr;
    mebp_error error = {};
    EXPECT_EQ(mebp_session_trainable_values(members[member].session->handle, nameOf(trainable), &found, &bytes, &error),
              MEBP_OK)
        << error.message;
    return found;
  }
  const char *nameOf(uint32_t trainable) {
    mebp_tensor_info info;
    mebp_tensor_info_init(&info);
    mebp_bundle_trainable_info(bundle, trainable, &info, nullptr);
    return info.name;
  }
  uint64_t bytesOf(uint32_t trainable) { return elementsOf(bundle, trainable) * sizeof(float); }

  mebp_bundle *bundle;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<double> squares;
  uint32_t have = 0;
  uint64_t bytes = 0;
};

class Parts : public BundleTest {
protected:
  // Halves of a text: of one session its two micro-batches, of the others a batch each. Means of as many labels, so
  // that the average of both is the mean of all, but for a factor that is a power of two.
  void expectOneSessionsBits(const mebp_session_options &given) {
    mebp_session_options summing = given;
    summing.accumulate = true;
    OpenSession whole(bundle.handle, summing);
    Pair pair(bundle.handle, given);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const std::vector<int32_t> ids = tinyTokens(20, seed);
      const mebp_batch both[] = {{ids.data(), ids.data(), 2, 5}, {ids.data() + 10, ids.data() + 10, 2, 5}};
      mebp_step_result result;
      mebp_step_result_init(&result);
      ASSERT_EQ(mebp_session_step_batches(whole.handle, both, 2, &result, &error), MEBP_OK) << error.message;
      pair.step([&](uint32_t index, mebp_session *session, mebp_error *failed) {
        mebp_step_result own;
        mebp_step_result_init(&own);
        const mebp_code code = mebp_session_step_batches(session, both + index, 1, &own, failed);
        if (given.clip > 0) {
          EXPECT_EQ(own.grad_norm, result.grad_norm);
        }
        return code;
      });
      for (const Pair::Member &member : pair.members)
        EXPECT_EQ(trainablesOf(bundle.handle, member.session->handle), trainablesOf(bundle.handle, whole.handle));
    }
  }
};

TEST_F(Parts, GiveOneSessionsBits) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (traits.projects || traits.forwardOnly)
      continue;
    SCOPED_TRACE(traits.name);
    mebp_session_options applied = applyingOptions(static_cast<mebp_optimizer>(traits.number)), clipped = applied,
                         returned = applied, summed = applied;
    clipped.clip = 1e-3;
    returned.return_gradients = true;
    summed.accumulate = true;
    for (const mebp_session_options &given : {applied, clipped, returned, summed})
      expectOneSessionsBits(given);
  }
}

// AdamW keeps two numbers of each, and a clipped gradient is a third one.
TEST_F(Parts, TakeTheMemoryOfWhatTheyOwn) {
  TinyOptions tiny;
  tiny.layers = 16;
  BundleFolder deep(tinyBundle(tiny));
  OpenBundle opened(deep.path());
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_bundle_get_info(opened.handle, &info, nullptr);
  std::unique_ptr<bool[]> owned[parts] = {std::make_unique<bool[]>(info.trainables),
                                          std::make_unique<bool[]>(info.trainables)};
  mebp_session_options given = applyingOptions();
  given.clip = 1;
  const uint64_t whole = mebp_session_memory_bytes(opened.handle, &given);
  given.on_norm = [](void *, const double *, uint64_t, double *) { return MEBP_OK; };
  for (uint32_t part = 0; part < parts; ++part)
    ASSERT_EQ(mebp_bundle_own_part(opened.handle, part, parts, owned[part].get(), nullptr), MEBP_OK);
  for (uint32_t part = 0; part < parts; ++part) {
    uint64_t own = 0, others = 0;
    for (uint32_t i = 0; i < info.trainables; ++i) {
      EXPECT_NE(owned[0][i], owned[1][i]);
      (owned[part][i] ? own : others) += (elementsOf(opened.handle, i) * sizeof(float) + 63) / 64 * 64;
    }
    EXPECT_NEAR(static_cast<double>(own), static_cast<double>(others), static_cast<double>(own) / 10);
    given.owned = owned[part].get();
    const uint64_t saved = whole - mebp_session_memory_bytes(opened.handle, &given);
    EXPECT_GE(saved, 3 * others - others / 4); // one block's gradients have a place while it runs
    EXPECT_LE(saved, 3 * others);
  }
}

TEST_F(Parts, AreContinuedFromTheirOwnStates) {
  mebp_session_options given = applyingOptions();
  Pair first(bundle.handle, given), second(bundle.handle, given);
  const std::vector<int32_t> ids = tinyTokens(10);
  auto step = [&](uint32_t, mebp_session *session, mebp_error *failed) {
    mebp_step_result own;
    mebp_step_result_init(&own);
    return mebp_session_step(session, ids.data(), ids.data(), 2, 5, &own, failed);
  };
  first.step(step);
  const std::string states[] = {scratchPath(), scratchPath()};
  for (uint32_t i = 0; i < parts; ++i) {
    ASSERT_EQ(mebp_session_save_state(first.members[i].session->handle, states[i].c_str(), nullptr, 0, &error),
              MEBP_OK);
    ASSERT_EQ(mebp_session_load_state(second.members[i].session->handle, states[i].c_str(), nullptr, nullptr, &error),
              MEBP_OK)
        << error.message;
  }
  first.step(step);
  second.step(step);
  EXPECT_EQ(trainablesOf(bundle.handle, first.members[0].session->handle),
            trainablesOf(bundle.handle, second.members[1].session->handle));
  expectRefusal(mebp_session_load_state(second.members[0].session->handle, states[1].c_str(), nullptr, nullptr, &error),
                "which this session keeps", MEBP_INCOMPATIBLE);
  OpenSession whole(bundle.handle, given);
  expectRefusal(mebp_session_load_state(whole.handle, states[0].c_str(), nullptr, nullptr, &error),
                "which this session keeps", MEBP_INCOMPATIBLE);
}

// Of large trainables each has whole tiles of the norm, and none is left out.
TEST(OwnedElements, CoverEachTrainableOnce) {
  TinyOptions tiny;
  tiny.layers = 3;
  format::Bundle bundle = tinyBundle(tiny);
  const uint64_t large[] = {7 * format::leastNormTile + 5, 900 * format::leastNormTile, format::leastNormTile};
  for (int i = 0; i < 3; ++i) {
    bundle.mutable_trainables(i)->set_rows(1);
    bundle.mutable_trainables(i)->set_columns(large[i]);
  }
  const layout::Facts facts = layout::factsOf(bundle);
  for (const format::OptimizerTraits *cutBy : {format::findOptimizer("adamw"), format::findOptimizer("adamw8bit")})
    for (uint32_t count : {1u, 2u, 3u, 4u, 7u}) {
      SCOPED_TRACE(std::string(cutBy->name) + " " + std::to_string(count));
      std::vector<uint64_t> next(static_cast<size_t>(bundle.trainables_size())), bytes(count);
      for (uint32_t index = 0; index < count; ++index) {
        const auto part = layout::partOf(facts, cutBy, index, count);
        for (uint32_t i = 0; i < part.size(); ++i) {
          if (part[i].count() == 0)
            continue;
          const uint64_t elements = trainableElements(bundle, i), tile = format::normTile(elements);
          EXPECT_EQ(part[i].begin, next[i]);
          EXPECT_TRUE(part[i].end % tile == 0 || part[i].end == elements);
          next[i] = part[i].end;
          bytes[index] += part[i].count() * sizeof(float);
          if (!format::goesByElement(*cutBy)) {
            EXPECT_EQ(part[i].count(), elements);
          }
        }
      }
      for (uint32_t i = 0; i < next.size(); ++i)
        EXPECT_EQ(next[i], trainableElements(bundle, i));
      if (format::goesByElement(*cutBy)) {
        const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
        EXPECT_LE(*most - *least, 8 * format::normTile(large[1]) * sizeof(float));
      }
    }
}

TEST_F(Parts, RefuseWhatTheyCannotBe) {
  bool none[64] = {};
  mebp_session *made = nullptr;
  mebp_session_options given = applyingOptions(MEBP_MEZO);
  given.owned = none;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "leave it out where there are none");
  given = applyingOptions();
  given.owned = none;
  given.clip = 1;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "give on_norm, or leave out clip");
  mebp_range ranges[64] = {};
  given.on_norm = [](void *, const double *, uint64_t, double *) { return MEBP_OK; };
  given.owned_elements = ranges;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "give one of them");
  given.owned = nullptr;
  ranges[0] = {0, 3};
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "elements 0 to 3 of");
  expectRefusal(mebp_bundle_own_elements(bundle.handle, MEBP_ADAMW, 2, 2, ranges, &error), "part 2 does not exist");
  expectRefusal(mebp_bundle_own_elements(bundle.handle, static_cast<mebp_optimizer>(99), 0, 2, ranges, &error),
                "there is no optimizer 99");
  expectRefusal(mebp_bundle_own_part(bundle.handle, 2, 2, none, &error), "part 2 does not exist; there are 2");
  expectRefusal(mebp_bundle_own_part(bundle.handle, 0, 0, none, &error), "part 0 does not exist");
  OpenSession session(bundle.handle, applyingOptions());
  void *values = nullptr;
  uint64_t bytes = 0;
  expectRefusal(mebp_session_trainable_values(session.handle, "other", &values, &bytes, &error),
                "there is no trainable 'other'", MEBP_NOT_FOUND);
  given = applyingOptions();
  given.spill_folder = ".";
  given.state_in_file = true;
  OpenSession filed(bundle.handle, given);
  mebp_tensor_info info;
  mebp_tensor_info_init(&info);
  mebp_bundle_trainable_info(bundle.handle, 0, &info, nullptr);
  expectRefusal(mebp_session_trainable_values(filed.handle, info.name, &values, &bytes, &error), "are in a file",
                MEBP_UNSUPPORTED);
}

} // namespace
