// SPDX-License-Identifier: Apache-2.0
//
// A generation of a bundle in memory, through the C API; the last call's code and error stay.
#pragma once

#include "generating_model.h"
#include "handles.h"

namespace mebp::test {

struct OpenGeneration {
  explicit OpenGeneration(const format::Bundle &content, const mebp_session_options &options = defaultOptions())
      : folder(content), bundle(folder.path()), session(bundle.handle, options) {
    EXPECT_EQ(mebp_generation_create(session.handle, &handle, &error), MEBP_OK) << error.message;
  }
  ~OpenGeneration() { mebp_generation_destroy(handle); }

  std::vector<float> append(const std::vector<int32_t> &ids, uint32_t batch = 1) {
    std::vector<float> logits(batch * tinyVocabulary);
    code = mebp_generation_append(handle, ids.data(), batch, static_cast<uint32_t>(ids.size()) / batch, logits.data(),
                                  &error);
    return logits;
  }
  mebp_code draft(const std::vector<int32_t> &ids) {
    code = mebp_generation_append_draft(handle, ids.data(), static_cast<uint32_t>(ids.size()), &error);
    return code;
  }
  std::vector<float> logits(uint32_t index) {
    std::vector<float> logits(tinyVocabulary);
    code = mebp_generation_draft_logits(handle, index, logits.data(), &error);
    return logits;
  }
  uint32_t rewind(uint32_t to) {
    uint32_t kept = ~0u;
    EXPECT_EQ(mebp_generation_rewind(handle, to, &kept, nullptr), MEBP_OK);
    EXPECT_EQ(kept, positions());
    return kept;
  }
  uint32_t positions() const { return mebp_generation_positions(handle); }

  BundleFolder folder;
  OpenBundle bundle;
  OpenSession session;
  mebp_generation *handle = nullptr;
  mebp_error error = {};
  mebp_code code = MEBP_OK;
};

// Ids [first, first + count).
inline std::vector<int32_t> part(const std::vector<int32_t> &ids, size_t first, size_t count) {
  return {ids.begin() + static_cast<int64_t>(first), ids.begin() + static_cast<int64_t>(first + count)};
}

} // namespace mebp::test
