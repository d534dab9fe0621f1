// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace mebp::format {

// Whether bytes are UTF-8: each character in its shortest form, no halves of UTF-16's pairs, none above U+10FFFF.
inline bool isUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at++]);
    if (first < 0x80)
      continue;
    const int more = first >= 0xC2 && first < 0xE0 ? 1 : first >= 0xE0 && first < 0xF0 ? 2 : first < 0xF5 ? 3 : 0;
    if (more == 0 || first < 0xC2 || bytes.size() - at < static_cast<size_t>(more))
      return false;
    // The second byte alone may be narrowed.
    const auto second = static_cast<unsigned char>(bytes[at]);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
      return false;
    for (int i = 0; i < more; ++i)
      if ((static_cast<unsigned char>(bytes[at++]) & 0xC0) != 0x80)
        return false;
  }
  return true;
}

} // namespace mebp::format
