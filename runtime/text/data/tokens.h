// SPDX-License-Identifier: Apache-2.0
//
// A file of JSON lines as tokens, none of its samples cut: python/mebp/data/loading.py's of the same file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/token_source.h"

namespace mebp::text {

// What of a sample counts: the assistant's turns, or its last one, everything, or a sample for each of its turns.
enum class LossOn { Assistant, Last, All, Turns };

struct Tokens {
  Form form = Form::Text;
  LossOn lossOn = LossOn::Assistant;
  std::vector<int32_t> ids;
  std::vector<bool> counts;       // whether an id is its own label; none of text, all of which counts
  std::vector<uint64_t> bounds;   // [samples + 1], where each sample begins and the last one ends; of text it is one
  uint64_t seen = 0, leftOut = 0; // samples, and those of them that are marked as not to be learned
};

Result<Tokens> readTokens(const std::string &path, const TokenSource &source, LossOn lossOn);

} // namespace mebp::text
