// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mebp::format {

// Whether JSON may nest deeper than a parser that calls itself has a stack for. What is in quotes counts, too: names
// have a bracket or two.
inline bool isDeepJson(std::string_view text) {
  constexpr int deepest = 64;
  int depth = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > deepest)
      return true;
  }
  return false;
}

} // namespace mebp::format
