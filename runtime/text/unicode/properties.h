// SPDX-License-Identifier: Apache-2.0
//
// What Unicode says of characters, as `tokenizers` asks for it. utf8proc has the tables.
#pragma once

#include <string>
#include <string_view>

namespace mebp::text {

bool isSpace(char32_t character);       // White_Space
bool isNumber(char32_t character);      // N
bool isPunctuation(char32_t character); // P, and what ASCII calls so
bool isMark(char32_t character);        // Mn
bool isAnyMark(char32_t character);     // M
bool isOther(char32_t character);       // Cc, Cf, Co
bool isWord(char32_t character);        // what \w means: letters, marks, decimal digits, connectors
bool isHan(char32_t character);         // as BERT has it

enum class Form { nfc, nfd, nfkc, nfkd };
// False where there is no memory.
bool normalize(std::string &text, Form form);
void appendLower(std::string &out, char32_t character);
// Where the cluster that begins at `at` ends.
size_t clusterEnd(std::string_view text, size_t at);

} // namespace mebp::text
