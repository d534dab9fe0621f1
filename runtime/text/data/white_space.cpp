// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/white_space.h"

#include <algorithm>
#include <iterator>

namespace mebp::text {

// Beside those of one byte: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
static constexpr std::string_view longer[] = {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                              "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                              "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

static bool isWhite(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= '\x1c' && byte <= '\x1f');
}

size_t whiteSpaceAt(std::string_view text) {
  if (text.empty())
    return 0;
  if (isWhite(text.front()))
    return 1;
  const auto *found = std::find_if(std::begin(longer), std::end(longer),
                                   [&](std::string_view space) { return text.substr(0, space.size()) == space; });
  return found == std::end(longer) ? 0 : found->size();
}

// How many bytes the white space has with which UTF-8 ends.
static size_t whiteSpaceBefore(std::string_view text) {
  size_t begin = text.size(); // of the last character
  while (begin && begin + 3 > text.size())
    if ((static_cast<unsigned char>(text[--begin]) & 0xC0) != 0x80)
      break;
  const size_t bytes = whiteSpaceAt(text.substr(begin));
  return begin + bytes == text.size() ? bytes : 0;
}

std::string_view stripLeft(std::string_view text, char only) {
  while (const size_t bytes = only ? !text.empty() && text.front() == only : whiteSpaceAt(text))
    text.remove_prefix(bytes);
  return text;
}

std::string_view stripRight(std::string_view text, char only) {
  while (const size_t bytes = only ? !text.empty() && text.back() == only : whiteSpaceBefore(text))
    text.remove_suffix(bytes);
  return text;
}

} // namespace mebp::text
