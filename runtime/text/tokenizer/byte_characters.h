// SPDX-License-Identifier: Apache-2.0
//
// The 256 characters that stand for bytes in byte-level vocabularies: printable ones for themselves, others from
// U+0100.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer/traced_text.h"

namespace mebp::text {

constexpr std::array<char32_t, 256> makeByteCharacters() {
  std::array<char32_t, 256> table = {};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool isPlain = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    table[byte] = isPlain ? byte : next++;
  }
  return table;
}
inline constexpr std::array<char32_t, 256> byteCharacters = makeByteCharacters();

// Those of a part of a text, in its place: of a character, all stand for it.
inline void putByteCharacters(Rewriting &out, std::string_view text) {
  for (unsigned char byte : text)
    out.put(byteCharacters[byte], (byte & 0xC0) == 0x80 ? 1 : 0);
}

} // namespace mebp::text
