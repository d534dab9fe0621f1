// SPDX-License-Identifier: Apache-2.0
//
// Parts of a tokenizer, one after another. Each may make the text twice as long, and a small file has many of them.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/tokenizer/pieces.h"

namespace mebp::text {

inline size_t bytesOf(const TracedText &text) { return text.text.size(); }
inline size_t bytesOf(const Pieces &pieces) { return bytesOf(pieces.text); }
inline size_t bytesOf(const std::vector<std::string> &texts) {
  size_t bytes = 0;
  for (const std::string &text : texts)
    bytes += text.size();
  return bytes;
}

// A part is a function of the text. Refuses to go on where it has become longer than any tokenizer makes it.
template <typename Part, typename Text> Status runInTurn(const std::vector<Part> &parts, Text &text) {
  constexpr size_t mostTimes = 64, mostOfAny = 64 << 10;
  const size_t most = mostTimes * bytesOf(text) + mostOfAny;
  for (const Part &part : parts) {
    if (Status status = part(text); !status.ok())
      return status;
    if (bytesOf(text) > most)
      return failure(
          MEBP_UNSUPPORTED,
          "a sequence in tokenizer.json makes the text more than %zu times as long; use a model with another "
          "tokenizer, or train on token ids",
          mostTimes);
  }
  return Status();
}

} // namespace mebp::text
