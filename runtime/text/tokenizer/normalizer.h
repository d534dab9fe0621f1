// SPDX-License-Identifier: Apache-2.0
//
// What is done to a text before it is cut into pieces.
#pragma once

#include <functional>
#include <string>

#include "runtime/text/tokenizer/fields.h"
#include "runtime/text/tokenizer/traced_text.h"

namespace mebp::text {

using Normalizer = std::function<Status(TracedText &)>;

// Of "normalizer" in tokenizer.json; null changes nothing.
Result<Normalizer> makeNormalizer(const Json &given);
// SentencePiece's table of replacements, in base64.
Result<Normalizer> makePrecompiled(const std::string &table);

// Each match becomes `content`.
Status replaceAll(TracedText &text, const Pattern &pattern, const std::string &content);

} // namespace mebp::text
