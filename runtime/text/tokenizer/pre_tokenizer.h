// SPDX-License-Identifier: Apache-2.0
//
// What cuts a text into the pieces that a model makes ids of.
#pragma once

#include <functional>

#include "runtime/text/tokenizer/fields.h"
#include "runtime/text/tokenizer/pieces.h"

namespace mebp::text {

using PreTokenizer = std::function<Status(Pieces &)>;

// Of "pre_tokenizer" in tokenizer.json; null leaves pieces as they are.
Result<PreTokenizer> makePreTokenizer(const Json &given);

} // namespace mebp::text
