// SPDX-License-Identifier: Apache-2.0
//
// Text that a session writes, token by token.
#pragma once

#include <memory>

#include "module.h"
#include "unlocked.h"

namespace mebp::python {

class Generation {
public:
  // The session has to outlive it; `words` is its vocabulary.
  Generation(mebp_session *session, size_t words) : vocabulary(words) {
    mebp_error error;
    mebp_generation *created = nullptr;
    check(mebp_generation_create(session, &created, &error), error);
    handle.reset(created);
  }

  // The logits of the token after the last one: [batch, vocabulary].
  FloatResult append(TokenArray ids) {
    FloatResult result = makeArray({ids.shape(0), vocabulary});
    float *out = result.data();
    const auto rows = static_cast<uint32_t>(ids.shape(0)), columns = static_cast<uint32_t>(ids.shape(1));
    unlocked(
        [&](mebp_error *error) { return mebp_generation_append(handle.get(), ids.data(), rows, columns, out, error); });
    return result;
  }
  uint32_t rewind(uint32_t positions) {
    uint32_t kept = 0;
    unlocked([&](mebp_error *error) { return mebp_generation_rewind(handle.get(), positions, &kept, error); });
    return kept;
  }
  void spread(uint32_t batch) {
    mebp_error error;
    check(mebp_generation_spread(handle.get(), batch, &error), error);
  }
  uint32_t positions() const { return mebp_generation_positions(handle.get()); }
  void appendDraft(TokenRow ids) {
    const auto count = static_cast<uint32_t>(ids.shape(0));
    unlocked([&](mebp_error *error) { return mebp_generation_append_draft(handle.get(), ids.data(), count, error); });
  }
  // [1, vocabulary]
  FloatResult draftLogits(uint32_t index) {
    FloatResult result = makeArray({1, vocabulary});
    float *out = result.data();
    unlocked([&](mebp_error *error) { return mebp_generation_draft_logits(handle.get(), index, out, error); });
    return result;
  }
  uint32_t draftLimit() const { return mebp_generation_draft_limit(handle.get()); }

private:
  struct Destroy {
    void operator()(mebp_generation *generation) const { mebp_generation_destroy(generation); }
  };
  size_t vocabulary;
  std::unique_ptr<mebp_generation, Destroy> handle;
};

// Without a way to make one.
nb::class_<Generation> bindGeneration(nb::module_ &module);

} // namespace mebp::python
