// SPDX-License-Identifier: Apache-2.0
//
// Text that others wrote (a peer, a file, the name of a file), as a message or a terminal may have it.
#pragma once

#include <cstring>
#include <string>

#include "format/utf8.h"

namespace mebp::format {

// What moves the cursor, begins another line, or turns the direction of the text around it.
inline bool isControl(std::string_view character) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  switch (character.size()) {
  case 1:
    return at(0) < ' ' || at(0) == 0x7F;
  case 2: // U+0080 to U+009F, U+061C
    return (at(0) == 0xC2 && at(1) < 0xA0) || (at(0) == 0xD8 && at(1) == 0x9C);
  case 3: // U+200E, U+200F; U+2028 to U+202E; U+2066 to U+2069
    return at(0) == 0xE2 && ((at(1) == 0x80 && (at(2) == 0x8E || at(2) == 0x8F || (at(2) >= 0xA8 && at(2) <= 0xAE))) ||
                             (at(1) == 0x81 && at(2) >= 0xA6 && at(2) <= 0xA9));
  default:
    return false;
  }
}

// One line of valid UTF-8: ends of lines and tabs are spaces; what else controls a terminal, and bytes that are not
// UTF-8, stand there as \x1b. Made twice, it is the same.
inline std::string readable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const size_t size = bytesOfCharacter(text);
    const std::string_view character = text.substr(0, size ? size : 1);
    text.remove_prefix(character.size());
    if (size && !isControl(character)) {
      line += character;
    } else if (size == 1 && std::string_view("\t\n\r").find(character[0]) != std::string_view::npos) {
      line += ' ';
    } else {
      for (const char byte : character)
        line += {'\\', 'x', digits[static_cast<unsigned char>(byte) >> 4], digits[byte & 15]};
    }
  }
  return line;
}

// The beginning of it, of at most so many bytes, that ends in no character's midst.
inline std::string_view cutText(std::string_view text, size_t most) {
  if (text.size() <= most)
    return text;
  size_t end = most;
  while (end > 0 && most - end < 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end);
}

// The same in an array of C's, which ends with a 0.
template <size_t room> void writeText(std::string_view text, char (&to)[room]) {
  const std::string_view cut = cutText(text, room - 1);
  if (!cut.empty())
    std::memcpy(to, cut.data(), cut.size());
  to[cut.size()] = '\0';
}

} // namespace mebp::format
