// SPDX-License-Identifier: Apache-2.0
//
// The seed of the fuzzer as what tests compose with. Its ids 300 to 302 close a turn.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace mebp::text {

inline std::string chatFile() {
  std::ifstream file(MEBP_CHAT_FILE);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// With the first place of one text in it replaced by another.
inline std::string chatFileWith(const std::string &found, const std::string &replaced) {
  std::string file = chatFile();
  const size_t at = file.find(found);
  return at == std::string::npos ? "" : file.replace(at, found.size(), replaced);
}

} // namespace mebp::text
