// SPDX-License-Identifier: Apache-2.0
//
// Decodes ids as they come. The last ids that gave text stay, so that what follows is decoded behind them as it would
// be behind all of them.
#pragma once

#include <string>
#include <vector>

#include "runtime/text/tokenizer/tokenizer.h"

namespace mebp::text {

class Stream {
public:
  Stream(const Tokenizer &tokenizer, bool skipsSpecialTokens)
      : tokenizer(&tokenizer), skipsSpecialTokens(skipsSpecialTokens) {}

  Status push(int32_t id);
  Status finish();
  const std::string &piece() const { return given; }

private:
  const Tokenizer *tokenizer;
  bool skipsSpecialTokens;
  std::vector<int32_t> ids;
  size_t fresh = 0;   // of ids, those that have given nothing yet begin here
  std::string before; // what the others give
  std::string whole, given;
};

} // namespace mebp::text
