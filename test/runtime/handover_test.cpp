// SPDX-License-Identifier: Apache-2.0
//
// Gradients that the caller changes, or takes and gives back: the bits of a step that nobody is told of.
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "format/optimizers.h"
#include "support/handles.h"

using namespace mebp;
using namespace mebp::test;

namespace {

// Takes what `chooses` says, and gives it back by a thread of its own, some together and not in their order.
class Giver {
public:
  explicit Giver(uint32_t atOnce) : atOnce(atOnce) {}
  ~Giver() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      isOver = true;
    }
    changed.notify_all();
    thread.join();
  }
  void listen(mebp_session_options &options) {
    options.on_gradient = [](void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
      return static_cast<Giver *>(user)->take(trainable, gradient, count, *taken);
    };
    options.gradient_user = this;
  }

  // After a step that has failed: until nothing of it is touched any more.
  void drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return held.empty() && !isGiving; });
  }

  mebp_session *session = nullptr;
  float factor = 1; // by which what is taken is multiplied, before it is given back
  int failsAt = -1; // at this call
  int calls = 0, given = 0;

private:
  mebp_code take(uint32_t trainable, float *gradient, uint64_t count, bool &taken) {
    if (calls++ == failsAt)
      return MEBP_IO;
    if (calls % 3 == 0) {
      for (uint64_t i = 0; i < count; ++i)
        gradient[i] *= factor;
      return MEBP_OK; // is left
    }
    const std::lock_guard<std::mutex> lock(mutex);
    held.push_back({trainable, gradient, count});
    changed.notify_all();
    return taken = true, MEBP_OK;
  }
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    std::mt19937 random(3);
    while (!isOver) {
      // What is short of `atOnce` is given after a while: nothing more may come before.
      changed.wait_for(lock, std::chrono::milliseconds(5), [&] { return isOver || held.size() >= atOnce; });
      while (!held.empty()) {
        std::swap(held.front(), held[random() % held.size()]);
        const Held one = held.front();
        held.pop_front();
        for (uint64_t i = 0; i < one.count; ++i)
          one.gradient[i] *= factor;
        ++given;
        isGiving = true;
        lock.unlock();
        mebp_session_give_gradient(session, one.trainable, nullptr);
        lock.lock();
        isGiving = false;
      }
      changed.notify_all();
    }
  }

  struct Held {
    uint32_t trainable;
    float *gradient;
    uint64_t count;
  };
  const uint32_t atOnce;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Held> held;
  bool isOver = false, isGiving = false;
  std::thread thread{[this] { run(); }};
};

class Handover : public BundleTest {
protected:
  mebp_code step(mebp_session *session, uint64_t seed, uint32_t batches, mebp_step_result &result) {
    const std::vector<int32_t> ids = tinyTokens(20, seed);
    const mebp_batch all[] = {{ids.data(), ids.data(), 2, 5}, {ids.data() + 10, ids.data() + 10, 2, 5}};
    mebp_step_result_init(&result);
    return mebp_session_step_batches(session, all, batches, &result, &error);
  }
  void expectSame(const mebp_session_options &given, uint32_t batches, uint32_t atOnce) {
    OpenSession plain(bundle.handle, given);
    Giver giver(atOnce);
    mebp_session_options listening = given;
    giver.listen(listening);
    OpenSession told(bundle.handle, listening);
    giver.session = told.handle;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      mebp_step_result one, other;
      ASSERT_EQ(step(plain.handle, seed, batches, one), MEBP_OK) << error.message;
      ASSERT_EQ(step(told.handle, seed, batches, other), MEBP_OK) << error.message;
      EXPECT_EQ(one.loss, other.loss);
      EXPECT_EQ(one.grad_norm, other.grad_norm);
    }
    EXPECT_EQ(trainablesOf(bundle.handle, plain.handle), trainablesOf(bundle.handle, told.handle));
    EXPECT_EQ(giver.calls, 3 * static_cast<int>(trainablesOf(bundle.handle, plain.handle).size()));
    EXPECT_GT(giver.given, giver.calls / 2);
  }
};

TEST_F(Handover, GivesTheBitsOfAStepThatNobodyIsToldOf) {
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (traits.projects || traits.forwardOnly)
      continue;
    for (uint32_t out : {0u, 1u, 5u})
      for (uint32_t atOnce : {1u, 4u}) {
        SCOPED_TRACE(std::string(traits.name) + ", out " + std::to_string(out) + ", at once " + std::to_string(atOnce));
        mebp_session_options given = applyingOptions();
        given.optimizer = static_cast<mebp_optimizer>(traits.number);
        given.gradients_out = 0;
        mebp_session_options listening = given;
        listening.gradients_out = out;
        OpenSession plain(bundle.handle, given);
        Giver giver(atOnce);
        giver.listen(listening);
        OpenSession told(bundle.handle, listening);
        giver.session = told.handle;
        mebp_step_result one, other;
        ASSERT_EQ(step(plain.handle, 1, 1, one), MEBP_OK);
        ASSERT_EQ(step(told.handle, 1, 1, other), MEBP_OK) << error.message;
        EXPECT_EQ(one.grad_norm, other.grad_norm);
        EXPECT_EQ(trainablesOf(bundle.handle, plain.handle), trainablesOf(bundle.handle, told.handle));
      }
  }
}

TEST_F(Handover, HoldsWhereGradientsAreKeptClippedOrSummed) {
  mebp_session_options kept = applyingOptions(), clipped = applyingOptions(), summed = applyingOptions();
  kept.return_gradients = true;
  clipped.clip = 0.05;
  summed.accumulate = true;
  expectSame(kept, 1, 2);
  expectSame(clipped, 1, 3);
  expectSame(summed, 1, 2);
  expectSame(summed, 2, 3);
}

TEST_F(Handover, AppliesWhatItWasChangedTo) {
  mebp_session_options halved = applyingOptions(), slow = applyingOptions();
  halved.optimizer = slow.optimizer = MEBP_SGD;
  slow.learning_rate = halved.learning_rate / 2;
  Giver giver(2);
  giver.factor = 0.5f;
  giver.listen(halved);
  halved.gradients_out = 1;
  OpenSession changed(bundle.handle, halved), other(bundle.handle, slow);
  giver.session = changed.handle;
  mebp_step_result result;
  ASSERT_EQ(step(changed.handle, 0, 1, result), MEBP_OK);
  ASSERT_EQ(step(other.handle, 0, 1, result), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle.handle, changed.handle), trainablesOf(bundle.handle, other.handle));
}

// As a kernel that fails: before anything is applied nothing has changed, and afterwards the session is poisoned.
TEST_F(Handover, AFailureEndsTheStep) {
  const auto count = static_cast<int>(trainablesOf(bundle.handle, OpenSession(bundle.handle).handle).size());
  for (bool accumulates : {false, true})
    for (int at = 0; at < count; ++at) {
      SCOPED_TRACE("at call " + std::to_string(at));
      mebp_session_options given = applyingOptions();
      given.accumulate = accumulates;
      Giver giver(1);
      giver.failsAt = at;
      giver.listen(given);
      OpenSession session(bundle.handle, given);
      giver.session = session.handle;
      const auto before = trainablesOf(bundle.handle, session.handle);
      mebp_step_result result;
      EXPECT_EQ(step(session.handle, 0, 1, result), MEBP_IO);
      EXPECT_NE(std::strstr(error.message, "on_gradient has failed at '"), nullptr) << error.message;
      giver.drain();
      giver.failsAt = -1;
      if (trainablesOf(bundle.handle, session.handle) == before)
        EXPECT_EQ(step(session.handle, 0, 1, result), MEBP_OK) << error.message;
      else
        EXPECT_EQ(step(session.handle, 0, 1, result), MEBP_POISONED);
    }
}

TEST_F(Handover, RefusesWhatHasNoGradients) {
  mebp_session *made = nullptr;
  mebp_session_options given = applyingOptions();
  given.gradients_out = 1;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "gradients_out is for on_gradient");
  Giver giver(1);
  giver.listen(given);
  given.optimizer = MEBP_MEZO;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "leave it out where there are none");
  given.optimizer = MEBP_ADAMW;
  given.clip = 1;
  given.clip_recompute = true;
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error), "leave it out with clip_recompute");
  OpenSession session(bundle.handle, applyingOptions());
  expectRefusal(mebp_session_give_gradient(session.handle, 0, &error), "has not been taken, or has been given back");
}

// What a caller is told of the norm, and what it makes of it.
struct Norm {
  mebp_code code = MEBP_OK;
  double factor = 1, sum = 0;
  uint64_t tiles = 0;

  void listen(mebp_session_options &options) {
    options.norm_user = this;
    options.on_norm = [](void *user, const double *squares, uint64_t count, double *sum) {
      Norm &own = *static_cast<Norm *>(user);
      own.tiles = count;
      own.sum = 0;
      for (uint64_t i = 0; i < count; ++i)
        own.sum += squares[i];
      *sum *= own.factor;
      return own.code;
    };
  }
};

TEST_F(Handover, TellsOfTheNormByTiles) {
  Norm norm;
  mebp_session_options given = applyingOptions();
  given.clip = 1e-3;
  mebp_session_options listening = given;
  norm.listen(listening);
  OpenSession plain(bundle.handle, given), told(bundle.handle, listening);
  mebp_step_result one, other;
  ASSERT_EQ(step(plain.handle, 0, 1, one), MEBP_OK);
  ASSERT_EQ(step(told.handle, 0, 1, other), MEBP_OK);
  EXPECT_EQ(one.grad_norm, other.grad_norm);
  EXPECT_EQ(trainablesOf(bundle.handle, plain.handle), trainablesOf(bundle.handle, told.handle));
  EXPECT_EQ(norm.tiles, trainablesOf(bundle.handle, plain.handle).size()); // each is smaller than a tile
  EXPECT_NEAR(std::sqrt(norm.sum), one.grad_norm, 1e-12);
}

// As if other machines had three quarters of the square: half is left of the step.
TEST_F(Handover, ClipsByTheNormThatItIsGiven) {
  Norm norm;
  norm.factor = 4;
  mebp_session_options given = applyingOptions();
  given.optimizer = MEBP_SGD;
  given.clip = 1e-3;
  mebp_session_options listening = given;
  norm.listen(listening);
  OpenSession plain(bundle.handle, given), told(bundle.handle, listening);
  const auto before = trainablesOf(bundle.handle, plain.handle);
  mebp_step_result one, other;
  ASSERT_EQ(step(plain.handle, 0, 1, one), MEBP_OK);
  ASSERT_EQ(step(told.handle, 0, 1, other), MEBP_OK);
  EXPECT_NEAR(other.grad_norm, 2 * one.grad_norm, 1e-12);
  const auto whole = trainablesOf(bundle.handle, plain.handle), half = trainablesOf(bundle.handle, told.handle);
  for (size_t i = 0; i < before.size(); ++i)
    for (size_t j = 0; j < before[i].size(); ++j)
      EXPECT_NEAR(half[i][j] - before[i][j], (whole[i][j] - before[i][j]) / 2, 1e-6);
}

TEST_F(Handover, AFailureOfTheNormChangesNothing) {
  Norm norm;
  norm.code = MEBP_IO;
  mebp_session_options given = applyingOptions();
  mebp_session *made = nullptr;
  norm.listen(given);
  expectRefusal(mebp_session_create(bundle.handle, &given, &made, &error),
                "on_norm is told of gradients that are kept");
  given.accumulate = true;
  OpenSession session(bundle.handle, given);
  const auto before = trainablesOf(bundle.handle, session.handle);
  mebp_step_result result;
  EXPECT_EQ(step(session.handle, 0, 1, result), MEBP_IO);
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  norm.code = MEBP_OK;
  EXPECT_EQ(step(session.handle, 0, 1, result), MEBP_OK) << error.message;
}

// Each block more that may be out takes the memory of one block's gradients.
TEST_F(Handover, TakesItsMemory) {
  Giver giver(1);
  mebp_session_options none = applyingOptions(), one = applyingOptions(), two = applyingOptions();
  for (mebp_session_options *each : {&none, &one, &two})
    giver.listen(*each);
  one.gradients_out = 1;
  two.gradients_out = 2;
  const uint64_t bytes[] = {mebp_session_memory_bytes(bundle.handle, &none),
                            mebp_session_memory_bytes(bundle.handle, &one),
                            mebp_session_memory_bytes(bundle.handle, &two)};
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_EQ(bytes[2] - bytes[1], bytes[1] - bytes[0]);
}

} // namespace
