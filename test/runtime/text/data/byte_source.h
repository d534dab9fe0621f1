// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer for tests: each byte is a token.
#pragma once

#include "runtime/text/data/token_source.h"

namespace mebp::text {

class ByteSource final : public TokenSource {
public:
  static constexpr int32_t begin = 256, end = 257, endOfText = 258;

  const TextMarks &marks() const override { return own; }
  Status encode(std::string_view text, std::vector<int32_t> &out) const override {
    for (unsigned char byte : text)
      out.push_back(byte);
    return Status();
  }
  // A turn is its role's first letter, its content and an end.
  Status compose(const std::vector<Turn> &turns, bool everything, std::vector<int32_t> &ids,
                 std::vector<bool> &counts) const override {
    for (const Turn &turn : turns) {
      ids.push_back(turn.role.front());
      counts.push_back(everything && turn.isLearned);
      for (unsigned char byte : turn.content)
        ids.push_back(byte);
      ids.push_back(end);
      counts.resize(ids.size(), turn.isLearned && (everything || turn.role == "assistant"));
    }
    return Status();
  }

private:
  TextMarks own = {{begin}, endOfText, end, {end, endOfText}};
};

} // namespace mebp::text
