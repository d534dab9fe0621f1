// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>

namespace mebp::text {

// The byte of a token such as <0x41>; -1 of any other.
inline int byteOfToken(const std::string &token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>' ||
      !std::isxdigit(static_cast<unsigned char>(token[3])) || !std::isxdigit(static_cast<unsigned char>(token[4])))
    return -1;
  return static_cast<int>(std::strtol(token.c_str() + 3, nullptr, 16));
}

} // namespace mebp::text
