// SPDX-License-Identifier: Apache-2.0
//
// What Unicode says of characters, as `tokenizers` asks for it. utf8proc has the tables.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace mebp::text {

bool isSpace(char32_t character);       // White_Space
bool isNumber(char32_t character);      // N
bool isPunctuation(char32_t character); // P, and what ASCII calls so
bool isMark(char32_t character);        // Mn
bool isAnyMark(char32_t character);     // M
bool isOther(char32_t character);       // Cc, Cf, Co
bool isWord(char32_t character);        // what \w means: letters, marks, decimal digits, connectors
bool isHan(char32_t character);         // as BERT has it

// One character in most cases; the second is 0 then.
std::pair<char32_t, char32_t> toLower(char32_t character);
// Where the cluster that begins at `at` ends.
size_t clusterEnd(std::string_view text, size_t at);

} // namespace mebp::text
