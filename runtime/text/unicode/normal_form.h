// SPDX-License-Identifier: Apache-2.0
//
// Unicode's normal forms, character by character, as `tokenizers` makes them.
#pragma once

#include <functional>
#include <string_view>

namespace mebp::text {

enum class Form { nfc, nfd, nfkc, nfkd };

// Of each character of the form: what became of the text's, as Rewriting::put has it.
using PutCharacter = std::function<void(char32_t character, int change)>;
void normalize(std::string_view text, Form form, const PutCharacter &put);

} // namespace mebp::text
