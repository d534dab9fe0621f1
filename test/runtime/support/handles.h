// SPDX-License-Identifier: Apache-2.0
//
// The C API's objects, closed at the end of their scope.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mebp/mebp.h"
#include "support/tiny_model.h"

namespace mebp::test {

inline mebp_session_options defaultOptions() {
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.threads = 1;
  options.return_gradients = true;
  return options;
}

// Of steps that apply each gradient at once, and move far enough to be seen.
inline mebp_session_options applyingOptions(mebp_optimizer optimizer = MEBP_ADAMW) {
  mebp_session_options options = defaultOptions();
  options.return_gradients = false;
  options.optimizer = optimizer;
  options.learning_rate = 1e-2;
  return options;
}

struct OpenBundle {
  explicit OpenBundle(const std::string &path) { code = mebp_bundle_open(path.c_str(), &handle, &error); }
  OpenBundle(const OpenBundle &) = delete;
  ~OpenBundle() { mebp_bundle_close(handle); }

  mebp_bundle *handle = nullptr;
  mebp_error error = {};
  mebp_code code;
};

// Of a tiny bundle, whose calls fail into `error`.
class BundleTest : public testing::Test {
protected:
  void expectRefusal(mebp_code code, const char *part, mebp_code expected = MEBP_INVALID_ARGUMENT) {
    EXPECT_EQ(code, expected) << part;
    EXPECT_EQ(error.code, expected) << part;
    EXPECT_NE(std::strstr(error.message, part), nullptr) << error.message << " instead of " << part;
    error = {};
  }

  BundleFolder folder{tinyBundle({})};
  OpenBundle bundle{folder.path()};
  mebp_error error = {};
};

struct OpenSession {
  explicit OpenSession(mebp_bundle *bundle, const mebp_session_options &options = defaultOptions()) {
    code = mebp_session_create(bundle, &options, &handle, &error);
    EXPECT_EQ(code, MEBP_OK) << error.message;
  }
  OpenSession(const OpenSession &) = delete;
  ~OpenSession() { mebp_session_destroy(handle); }

  mebp_session *handle = nullptr;
  mebp_error error = {};
  mebp_code code;
};

inline uint64_t elementsOf(mebp_bundle *bundle, uint32_t trainable) {
  mebp_tensor_info info;
  mebp_bundle_trainable_info(bundle, trainable, &info, nullptr);
  return info.rows * info.columns;
}

inline std::vector<std::vector<float>> trainablesOf(mebp_bundle *bundle, const mebp_session *session) {
  mebp_bundle_info info;
  mebp_bundle_get_info(bundle, &info, nullptr);
  std::vector<std::vector<float>> values;
  for (uint32_t i = 0; i < info.trainables; ++i) {
    values.emplace_back(elementsOf(bundle, i));
    EXPECT_EQ(mebp_session_read_trainable(session, i, values[i].data(), values[i].size(), nullptr), MEBP_OK);
  }
  return values;
}

inline std::vector<std::vector<float>> gradientsOf(mebp_bundle *bundle, const mebp_session *session) {
  mebp_bundle_info info;
  mebp_bundle_get_info(bundle, &info, nullptr);
  std::vector<std::vector<float>> values;
  for (uint32_t i = 0; i < info.trainables; ++i) {
    values.emplace_back(elementsOf(bundle, i));
    EXPECT_EQ(mebp_session_read_gradient(session, i, values[i].data(), values[i].size(), nullptr), MEBP_OK);
  }
  return values;
}

} // namespace mebp::test
