// SPDX-License-Identifier: Apache-2.0
//
// White space of UTF-8, as Python's str.strip and \s have it.
#pragma once

#include <cstddef>
#include <string_view>

namespace mebp::text {

// How many bytes the white space has with which UTF-8 begins; 0 where it begins with none.
size_t whiteSpaceAt(std::string_view text);

// `only`: the one character that is cut off; 0: all white space.
std::string_view stripLeft(std::string_view text, char only = 0);
std::string_view stripRight(std::string_view text, char only = 0);

} // namespace mebp::text
