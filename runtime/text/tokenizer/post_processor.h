// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/text/tokenizer/fields.h"

namespace mebp::text {

// Ids that a model wants around a text.
struct Around {
  std::vector<int32_t> before, after;
};

// Of "post_processor" in tokenizer.json, as it is for one text.
Status readPostProcessor(const Json &given, Around &out);

} // namespace mebp::text
