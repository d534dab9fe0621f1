// SPDX-License-Identifier: Apache-2.0
//
// What stands around a text for a model, by the files beside its tokenizer.json: as python/mebp/tokenizer.py finds it.
#pragma once

#include <string>

#include "runtime/text/data/token_source.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace mebp::text {

Result<TextMarks> readTextMarks(const std::string &folder, const Tokenizer &tokenizer);

} // namespace mebp::text
