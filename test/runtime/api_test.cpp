// SPDX-License-Identifier: Apache-2.0
//
// The C API's own promises: what it refuses, and how its structs may grow.
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "support/handles.h"

using namespace mebp::test;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class ApiTest : public BundleTest {
protected:
  OpenSession session{bundle.handle};
  std::vector<int32_t> ids = tinyTokens(10);
};

TEST_F(ApiTest, TellsItsVersion) {
  EXPECT_EQ(mebp_version(), std::to_string(MEBP_VERSION_MAJOR) + "." + std::to_string(MEBP_VERSION_MINOR) + "." +
                                std::to_string(MEBP_VERSION_PATCH));
}

TEST_F(ApiTest, RefusesNullForABundle) {
  mebp_bundle *opened = bundle.handle;
  mebp_bundle_info info;
  mebp_tensor_info tensor;
  float values[100];
  expectRefusal(mebp_bundle_open(nullptr, &opened, &error), "'path' is NULL");
  EXPECT_EQ(opened, nullptr);
  expectRefusal(mebp_bundle_open("x", nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_bundle_validate(nullptr, &error), "'path' is NULL");
  expectRefusal(mebp_bundle_check_weights(nullptr, &error), "'bundle' is NULL");
  expectRefusal(mebp_bundle_get_info(nullptr, &info, &error), "'bundle' is NULL");
  expectRefusal(mebp_bundle_get_info(bundle.handle, nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_bundle_weight_info(nullptr, 0, &tensor, &error), "'bundle' is NULL");
  expectRefusal(mebp_bundle_weight_info(bundle.handle, 0, nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_bundle_weight_read(nullptr, 0, values, &error), "'bundle' is NULL");
  expectRefusal(mebp_bundle_weight_read(bundle.handle, 0, nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_bundle_trainable_info(nullptr, 0, &tensor, &error), "'bundle' is NULL");
  expectRefusal(mebp_bundle_trainable_info(bundle.handle, 0, nullptr, &error), "'out' is NULL");
  EXPECT_EQ(mebp_bundle_manifest_json(nullptr), nullptr);
  EXPECT_EQ(mebp_bundle_describe_json(nullptr), nullptr);
  mebp_bundle_close(nullptr);
  EXPECT_EQ(mebp_bundle_open(nullptr, nullptr, nullptr), MEBP_INVALID_ARGUMENT); // without an error, too
}

TEST_F(ApiTest, RefusesNullForASession) {
  mebp_session_options options = defaultOptions();
  mebp_session *created = session.handle;
  mebp_step_result result;
  double loss = 0;
  float values[200];
  uint64_t size = 0;
  const mebp_batch whole = {ids.data(), ids.data(), 2, 5}, noIds = {nullptr, ids.data(), 2, 5},
                   noLabels = {ids.data(), nullptr, 2, 5};
  const float *gradients[4] = {};
  const int32_t *data = ids.data();
  mebp_session *of = session.handle;
  mebp_session_options_init_sized(nullptr, sizeof(options));
  EXPECT_EQ(mebp_session_memory_bytes(nullptr, &options), 0u);
  EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, nullptr), 0u);
  EXPECT_EQ(mebp_session_peak_bytes(nullptr, &options), 0u);
  EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, nullptr), 0u);
  expectRefusal(mebp_session_create(nullptr, &options, &created, &error), "'bundle' is NULL");
  EXPECT_EQ(created, nullptr);
  expectRefusal(mebp_session_create(bundle.handle, nullptr, &created, &error), "'options' is NULL");
  expectRefusal(mebp_session_create(bundle.handle, &options, nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_session_loss(nullptr, data, data, 2, 5, &loss, &error), "'session' is NULL");
  expectRefusal(mebp_session_loss(of, nullptr, data, 2, 5, &loss, &error), "'ids' is NULL");
  expectRefusal(mebp_session_loss(of, data, nullptr, 2, 5, &loss, &error), "'labels' is NULL");
  expectRefusal(mebp_session_loss(of, data, data, 2, 5, nullptr, &error), "'loss' is NULL");
  expectRefusal(mebp_session_gradients(nullptr, data, data, 2, 5, &loss, &error), "'session' is NULL");
  expectRefusal(mebp_session_gradients(of, nullptr, data, 2, 5, &loss, &error), "'ids' is NULL");
  expectRefusal(mebp_session_gradients(of, data, nullptr, 2, 5, &loss, &error), "'labels' is NULL");
  expectRefusal(mebp_session_gradients(of, data, data, 2, 5, nullptr, &error), "'loss' is NULL");
  expectRefusal(mebp_session_step(nullptr, data, data, 2, 5, &result, &error), "'session' is NULL");
  expectRefusal(mebp_session_step(of, nullptr, data, 2, 5, &result, &error), "'ids' is NULL");
  expectRefusal(mebp_session_step(of, data, nullptr, 2, 5, &result, &error), "'labels' is NULL");
  expectRefusal(mebp_session_step(of, data, data, 2, 5, nullptr, &error), "'result' is NULL");
  expectRefusal(mebp_session_step_batches(nullptr, &whole, 1, &result, &error), "'session' is NULL");
  expectRefusal(mebp_session_step_batches(of, nullptr, 1, &result, &error), "'batches' is NULL");
  expectRefusal(mebp_session_step_batches(of, &noIds, 1, &result, &error), "'ids' is NULL");
  expectRefusal(mebp_session_step_batches(of, &noLabels, 1, &result, &error), "'labels' is NULL");
  expectRefusal(mebp_session_step_batches(of, &whole, 1, nullptr, &error), "'result' is NULL");
  expectRefusal(mebp_session_apply_gradients(nullptr, gradients, &error), "'session' is NULL");
  expectRefusal(mebp_session_apply_gradients(of, nullptr, &error), "'gradients' is NULL");
  expectRefusal(mebp_session_apply_gradients(of, gradients, &error), "'gradients[i]' is NULL");
  expectRefusal(mebp_session_logits(nullptr, data, 2, 5, 0, 1, values, &error), "'session' is NULL");
  expectRefusal(mebp_session_logits(of, nullptr, 2, 5, 0, 1, values, &error), "'ids' is NULL");
  expectRefusal(mebp_session_logits(of, data, 2, 5, 0, 1, nullptr, &error), "'out' is NULL");
  expectRefusal(mebp_session_set_learning_rate(nullptr, 1, &error), "'session' is NULL");
  expectRefusal(mebp_session_set_embedding_learning_rate(nullptr, 1, &error), "'session' is NULL");
  expectRefusal(mebp_session_set_embedding_learning_rate(of, 1, &error),
                "the bundle trains no embedding and no rows of new tokens, which a learning rate of their own would be "
                "for; leave it out");
  EXPECT_EQ(mebp_session_steps(nullptr), 0u);
  EXPECT_EQ(mebp_session_kernels(nullptr), nullptr);
  expectRefusal(mebp_session_read_trainable(nullptr, 0, values, 12, &error), "'session' is NULL");
  expectRefusal(mebp_session_read_trainable(of, 0, nullptr, 12, &error), "'out' is NULL");
  expectRefusal(mebp_session_write_trainable(nullptr, 0, values, 12, &error), "'session' is NULL");
  expectRefusal(mebp_session_write_trainable(of, 0, nullptr, 12, &error), "'values' is NULL");
  expectRefusal(mebp_session_read_gradient(nullptr, 0, values, 12, &error), "'session' is NULL");
  expectRefusal(mebp_session_read_gradient(of, 0, nullptr, 12, &error), "'out' is NULL");
  expectRefusal(mebp_session_save_adapter(nullptr, "x", &error), "'session' is NULL");
  expectRefusal(mebp_session_save_adapter(of, nullptr, &error), "'folder' is NULL");
  expectRefusal(mebp_session_load_adapter(nullptr, "x", &error), "'session' is NULL");
  expectRefusal(mebp_session_load_adapter(of, nullptr, &error), "'folder' is NULL");
  expectRefusal(mebp_session_save_state(nullptr, "x", nullptr, 0, &error), "'session' is NULL");
  expectRefusal(mebp_session_save_state(of, nullptr, nullptr, 0, &error), "'folder' is NULL");
  expectRefusal(mebp_session_save_state(of, "x", nullptr, 1, &error), "'user' is NULL");
  expectRefusal(mebp_session_load_state(nullptr, "x", nullptr, &size, &error), "'session' is NULL");
  expectRefusal(mebp_session_load_state(of, nullptr, nullptr, &size, &error), "'folder' is NULL");
  expectRefusal(mebp_session_load_state(of, "x", values, nullptr, &error), "'user_bytes' is NULL");
  mebp_session_destroy(nullptr);
  EXPECT_EQ(mebp_session_steps(of), 0u);
}

TEST_F(ApiTest, RefusesNullForACalibration) {
  mebp_calibration_options options;
  mebp_calibration_options_init(&options);
  mebp_calibration *made = nullptr;
  expectRefusal(mebp_calibration_create(nullptr, &made, &error), "'options' is NULL");
  expectRefusal(mebp_calibration_create(&options, nullptr, &error), "'out' is NULL");
  EXPECT_EQ(mebp_calibration_json(nullptr), nullptr);
  mebp_calibration_destroy(nullptr);
}

TEST_F(ApiTest, RefusesOddNumbersAndPlansNothingForThem) {
  struct Case {
    void (*spoil)(mebp_session_options &options, double number);
    const char *part;
    std::vector<double> numbers;
  };
  const Case cases[] = {
      {[](mebp_session_options &o, double x) { o.learning_rate = x; }, "learning rate", {nan, -1e-9, infinity}},
      {[](mebp_session_options &o, double x) { o.weight_decay = x; }, "weight decay", {nan, -1, infinity}},
      {[](mebp_session_options &o, double x) { o.clip = x; }, "clip", {nan, -1, infinity}},
      {[](mebp_session_options &o, double x) { o.optimizer = static_cast<mebp_optimizer>(x); },
       "optimizer number",
       {77, -1}},
      {[](mebp_session_options &o, double x) { o.backend = static_cast<mebp_backend>(x); }, "device number", {77, -1}},
      {[](mebp_session_options &o, double x) { o.threads = static_cast<uint32_t>(x); }, "threads", {1025, 4e9}},
  };
  for (const Case &odd : cases)
    for (double number : odd.numbers) {
      mebp_session_options options = defaultOptions();
      odd.spoil(options, number);
      mebp_session *created = nullptr;
      mebp_code code = mebp_session_create(bundle.handle, &options, &created, &error);
      EXPECT_TRUE(code == MEBP_INVALID_ARGUMENT || code == MEBP_UNSUPPORTED) << odd.part << " " << number;
      expectRefusal(code, odd.part, code);
      EXPECT_EQ(created, nullptr);
      EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &options), 0u) << odd.part << " " << number;
      EXPECT_EQ(mebp_session_peak_bytes(bundle.handle, &options), 0u);
    }
  for (double number : {nan, -1e-9, infinity})
    expectRefusal(mebp_session_set_learning_rate(session.handle, number, &error), "learning rate");
}

TEST_F(ApiTest, RefusesOddGradientsAndIndices) {
  const std::vector<std::vector<float>> before = trainablesOf(bundle.handle, session.handle);
  std::vector<float> good(12, 0.5f), bad(12, 0.5f);
  const float *gradients[4] = {good.data(), good.data(), bad.data(), good.data()};
  for (double number : {nan, infinity}) {
    bad[5] = static_cast<float>(number);
    expectRefusal(mebp_session_apply_gradients(session.handle, gradients, &error), "gradient's norm", MEBP_NOT_FINITE);
  }
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), before);
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
  mebp_tensor_info tensor;
  for (uint32_t index : {4u, UINT32_MAX}) {
    expectRefusal(mebp_session_read_trainable(session.handle, index, good.data(), 12, &error),
                  "does not exist; the bundle has 4");
    expectRefusal(mebp_session_write_trainable(session.handle, index, good.data(), 12, &error),
                  "does not exist; the bundle has 4");
    expectRefusal(mebp_bundle_trainable_info(bundle.handle, index, &tensor, &error),
                  "does not exist; the bundle has 4");
  }
  expectRefusal(mebp_bundle_weight_info(bundle.handle, UINT32_MAX, &tensor, &error),
                "does not exist; the bundle has 3");
  expectRefusal(mebp_bundle_weight_read(bundle.handle, UINT32_MAX, good.data(), &error),
                "does not exist; the bundle has 3");
  for (uint64_t count : {uint64_t(0), uint64_t(13), UINT64_MAX})
    expectRefusal(mebp_session_read_trainable(session.handle, 0, good.data(), count, &error), "has 12 elements");
}

// What a caller's struct of another version looks like: this one, shorter or longer.
TEST_F(ApiTest, ReadsTheOptionsOfOtherVersions) {
  struct Longer {
    mebp_session_options known;
    uint64_t added = 0;
  } longer;
  mebp_session_options_init_sized(&longer.known, sizeof(longer));
  EXPECT_EQ(longer.added, 0u); // the library's, which does not know the field
  EXPECT_EQ(longer.known.size, sizeof(longer));
  EXPECT_EQ(longer.known.learning_rate, 2e-4);
  longer.known.threads = 1;
  mebp_session *created = nullptr;
  EXPECT_EQ(mebp_session_create(bundle.handle, &longer.known, &created, &error), MEBP_OK) << error.message;
  mebp_session_destroy(created);
  longer.added = 1;
  expectRefusal(mebp_session_create(bundle.handle, &longer.known, &created, &error),
                "mebp_session_options has an option that this version of the library", MEBP_UNSUPPORTED);

  // An older caller's, which ends before the spilling: what lies behind it is not the library's to read or write.
  alignas(mebp_session_options) unsigned char memory[sizeof(mebp_session_options)];
  std::memset(memory, 0xff, sizeof(memory));
  auto *shorter = reinterpret_cast<mebp_session_options *>(memory);
  constexpr size_t end = offsetof(mebp_session_options, spill_folder);
  mebp_session_options_init_sized(shorter, end);
  for (size_t i = end; i < sizeof(memory); ++i)
    ASSERT_EQ(memory[i], 0xff);
  shorter->threads = 1;
  ASSERT_EQ(mebp_session_create(bundle.handle, shorter, &created, &error), MEBP_OK) << error.message;
  mebp_session_destroy(created);
}

TEST_F(ApiTest, WritesTheResultsOfOtherVersions) {
  struct Longer {
    mebp_step_result known;
    uint64_t added = 7;
  } longer;
  longer.known.size = sizeof(longer);
  ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &longer.known, &error), MEBP_OK);
  EXPECT_EQ(longer.added, 7u);
  EXPECT_EQ(longer.known.size, sizeof(longer));
  EXPECT_EQ(longer.known.tokens, 8u);

  mebp_step_result shorter;
  mebp_step_result_init(&shorter);
  shorter.size = offsetof(mebp_step_result, seconds);
  ASSERT_EQ(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &shorter, &error), MEBP_OK);
  EXPECT_EQ(shorter.tokens, 8u);
  EXPECT_EQ(shorter.peak_bytes, 0u);
}

TEST_F(ApiTest, TellsWhatABundleWasPlannedFor) {
  mebp::format::Bundle planned = tinyBundle({});
  planned.mutable_plan()->set_optimizer("sgd");
  planned.mutable_plan()->set_momentum(0.25);
  BundleFolder folder(planned);
  OpenBundle opened(folder.path());
  mebp_bundle_info info;
  ASSERT_EQ(mebp_bundle_get_info(opened.handle, &info, &error), MEBP_OK);
  EXPECT_EQ(info.optimizer, MEBP_SGD);
  EXPECT_EQ(info.momentum, 0.25);
  ASSERT_EQ(mebp_bundle_get_info(bundle.handle, &info, &error), MEBP_OK);
  EXPECT_EQ(info.optimizer, MEBP_ADAMW);
  EXPECT_EQ(info.momentum, 0);
}

TEST_F(ApiTest, RefusesAStructWithoutASize) {
  mebp_session_options options = defaultOptions();
  mebp_bundle_info info;
  mebp_tensor_info tensor;
  mebp_step_result result;
  mebp_calibration_options calibration;
  mebp_session *created = nullptr;
  mebp_calibration *made = nullptr;
  for (size_t size : {size_t(0), sizeof(size_t), SIZE_MAX}) {
    options.size = info.size = tensor.size = result.size = calibration.size = size;
    expectRefusal(mebp_session_create(bundle.handle, &options, &created, &error), "call mebp_session_options_init");
    EXPECT_EQ(mebp_session_memory_bytes(bundle.handle, &options), 0u);
    expectRefusal(mebp_bundle_get_info(bundle.handle, &info, &error), "call mebp_bundle_info_init");
    expectRefusal(mebp_bundle_weight_info(bundle.handle, 0, &tensor, &error), "call mebp_tensor_info_init");
    expectRefusal(mebp_bundle_trainable_info(bundle.handle, 0, &tensor, &error), "call mebp_tensor_info_init");
    expectRefusal(mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &error),
                  "call mebp_step_result_init");
    expectRefusal(mebp_calibration_create(&calibration, &made, &error), "call mebp_calibration_options_init");
  }
  EXPECT_EQ(mebp_session_steps(session.handle), 0u);
}

// Four threads that all step one session: each call is made, or refused, and the loss is that of as many steps.
TEST_F(ApiTest, RefusesASessionThatAnotherThreadUses) {
  std::atomic<int> done{0}, refused{0}, other{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int step = 0; step < 200; ++step) {
        mebp_step_result result;
        mebp_error failed = {};
        mebp_code code = mebp_session_step(session.handle, ids.data(), ids.data(), 2, 5, &result, &failed);
        const bool isBusy = code == MEBP_BUSY && std::strstr(failed.message, "in use by another thread");
        ++(code == MEBP_OK ? done : isBusy ? refused : other);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(done + refused, 800);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(mebp_session_steps(session.handle), static_cast<uint64_t>(done));
  OpenSession alone(bundle.handle);
  mebp_step_result result;
  for (int step = 0; step < done; ++step)
    ASSERT_EQ(mebp_session_step(alone.handle, ids.data(), ids.data(), 2, 5, &result, nullptr), MEBP_OK);
  EXPECT_EQ(trainablesOf(bundle.handle, session.handle), trainablesOf(bundle.handle, alone.handle));
}

} // namespace
