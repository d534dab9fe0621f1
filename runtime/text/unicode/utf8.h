// SPDX-License-Identifier: Apache-2.0
//
// UTF-8, a character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mebp::text {

// Where the first character begins that is not UTF-8, or npos.
size_t findInvalid(std::string_view text);
// The character at `at` of valid text, and moves past it.
char32_t nextCharacter(std::string_view text, size_t &at);
// The beginning of the character before `at` of valid text; `at` is not 0.
size_t previousCharacter(std::string_view text, size_t at);
void append(std::string &out, char32_t character);
// The text with U+FFFD for each longest part that begins like a character and is none, as Unicode advises.
std::string replaceInvalid(std::string_view text);
size_t characterLength(unsigned char first);

} // namespace mebp::text
