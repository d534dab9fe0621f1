// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/text/tokenizer/fields.h"

namespace mebp::text {

// Ids that a model wants around a text.
struct Around {
  std::vector<int32_t> before, after;
  std::vector<bool> trims; // each leaves out the spaces of a token where it lies; or, where true, not the first token's
};

// Of "post_processor" in tokenizer.json, as it is for one text.
Status readPostProcessor(const Json &given, Around &out);

} // namespace mebp::text
