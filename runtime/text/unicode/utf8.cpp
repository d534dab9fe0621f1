// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

// Bytes from `at` on that are a character, or the beginning of one.
size_t takeCharacter(std::string_view text, size_t at, bool &valid) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(at);
  valid = first < 0x80;
  if (first < 0xC2 || first > 0xF4)
    return 1;
  const size_t length = characterLength(first);
  for (size_t done = 1; done < length; ++done) {
    if (at + done >= text.size())
      return done;
    const unsigned char next = byte(at + done);
    const unsigned char low = done > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = done > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (next < low || next > high)
      return done;
  }
  valid = true;
  return length;
}

} // namespace

size_t characterLength(unsigned char first) { return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4; }

size_t findInvalid(std::string_view text) {
  bool valid = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = takeCharacter(text, at, valid);
    if (!valid)
      return at;
    at += length;
  }
  return std::string_view::npos;
}

char32_t nextCharacter(std::string_view text, size_t &at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80)
    return first;
  const size_t length = characterLength(first);
  char32_t character = first & (0xFF >> (length + 1));
  for (size_t done = 1; done < length; ++done)
    character = character << 6 | (static_cast<unsigned char>(text[at++]) & 0x3F);
  return character;
}

size_t previousCharacter(std::string_view text, size_t at) {
  while ((static_cast<unsigned char>(text[--at]) & 0xC0) == 0x80)
    ;
  return at;
}

void append(std::string &out, char32_t character) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (character < 0x80)
    return put(character);
  if (character < 0x800) {
    put(0xC0 | character >> 6);
  } else {
    if (character < 0x10000) {
      put(0xE0 | character >> 12);
    } else {
      put(0xF0 | character >> 18);
      put(0x80 | (character >> 12 & 0x3F));
    }
    put(0x80 | (character >> 6 & 0x3F));
  }
  put(0x80 | (character & 0x3F));
}

std::string replaceInvalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool valid = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = takeCharacter(text, at, valid);
    if (valid)
      out.append(text.substr(at, length));
    else
      append(out, 0xFFFD);
    at += length;
  }
  return out;
}

} // namespace mebp::text
