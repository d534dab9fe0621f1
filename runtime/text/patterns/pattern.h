// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions as tokenizer.json has them, which are Oniguruma's, run by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/status.h"

namespace mebp::text {

class Pattern {
public:
  // Refuses what the two read differently.
  static Result<Pattern> regex(const std::string &expression);
  static Pattern literal(std::string text);

  // What find takes for a text, of the same length: in it, characters that PCRE2 does not know yet are older ones of
  // their category. It is in `room` where it is not the text itself.
  std::string_view prepare(std::string_view text, std::string &room) const;
  // The first match that begins at `from` or later, as [begin, end); false where there is none. Text is valid UTF-8.
  Result<bool> find(std::string_view text, size_t from, size_t &begin, size_t &end) const;

private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled; // null: what is sought is the text itself
  std::string sought;
};

} // namespace mebp::text
