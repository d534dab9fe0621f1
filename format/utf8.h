// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace mebp::format {

// How many bytes the first character has; 0 where what begins there is not UTF-8: each character in its shortest form,
// no halves of UTF-16's pairs, none above U+10FFFF.
inline size_t bytesOfCharacter(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.empty() || at(0) < 0x80)
    return bytes.size() ? 1 : 0;
  const size_t size = at(0) < 0xC2 ? 0 : at(0) < 0xE0 ? 2 : at(0) < 0xF0 ? 3 : at(0) < 0xF5 ? 4 : 0;
  if (size == 0 || bytes.size() < size)
    return 0;
  // The second byte alone may be narrowed.
  if ((at(0) == 0xE0 && at(1) < 0xA0) || (at(0) == 0xED && at(1) > 0x9F) || (at(0) == 0xF0 && at(1) < 0x90) ||
      (at(0) == 0xF4 && at(1) > 0x8F))
    return 0;
  for (size_t i = 1; i < size; ++i)
    if ((at(i) & 0xC0) != 0x80)
      return 0;
  return size;
}

inline bool isUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = bytesOfCharacter(bytes);
    if (size == 0)
      return false;
    bytes.remove_prefix(size);
  }
  return true;
}

} // namespace mebp::format
