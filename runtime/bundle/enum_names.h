// SPDX-License-Identifier: Apache-2.0
//
// The names of program.proto's enumerators, as people read them.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace mebp {

// "token_rows" of TOKEN_ROWS.
inline std::string inLowerCase(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

} // namespace mebp
