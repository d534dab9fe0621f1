// SPDX-License-Identifier: Apache-2.0
//
// What data needs of a tokenizer and of a chat template.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/sample.h"

namespace mebp::text {

// Ids that stand around a text.
struct TextMarks {
  std::vector<int32_t> before; // what the model wants before a text that stands alone, such as <bos>
  int32_t endOfText = 0;       // between documents, and what fills up a row
  int32_t endOfSequence = 0;   // what is put behind an answer
  std::vector<int32_t> stops;  // with which an answer is finished: both of these, and what else the model names
};

class TokenSource {
public:
  virtual ~TokenSource() = default;
  virtual const TextMarks &marks() const = 0;
  // The ids of a text, without any added at its ends, behind those that `out` has.
  virtual Status encode(std::string_view text, std::vector<int32_t> &out) const = 0;
  // Of a whole conversation, and whether each counts: those of turns that are to be learned, with what ends them, or
  // `everything` but turns of the assistant that are not. Refuses one that it cannot compose.
  virtual Status compose(const std::vector<Turn> &turns, bool everything, std::vector<int32_t> &ids,
                         std::vector<bool> &counts) const = 0;
};

} // namespace mebp::text
