// SPDX-License-Identifier: Apache-2.0
//
// A file of JSON lines as tokens, none of its samples cut: python/mebp/data/loading.py's of the same file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/token_source.h"
#include "runtime/text/data/token_store.h"

namespace mebp::text {

// What of a sample counts: the assistant's turns, or its last one, everything, or a sample for each of its turns.
enum class LossOn { Assistant, Last, All, Turns };

struct Tokens {
  Form form = Form::Text;
  LossOn lossOn = LossOn::Assistant;
  TokenStore store;               // of text all count
  std::vector<uint64_t> bounds;   // [samples + 1], where each sample begins and the last one ends; of text it is one
  uint64_t seen = 0, leftOut = 0; // samples, and those of them that are marked as not to be learned
};

// folder: where the tokens of a large file go (TokenStore).
Result<Tokens> readTokens(const std::string &path, const TokenSource &source, LossOn lossOn,
                          const std::string &folder = "");

} // namespace mebp::text
