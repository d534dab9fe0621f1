// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.json in memory: what is large goes into tables as it is read, and the rest is a JSON value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/core/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace mebp::text {

constexpr uint64_t largestTokenizerFile = uint64_t{128} << 20;

struct TokenizerFile {
  nlohmann::json rest; // without model.vocab and model.merges
  Vocabulary vocabulary;
  std::vector<double> scores; // by id, of Unigram
  // Pairs of tokens one after another, and where each text ends.
  std::string merges;
  std::vector<uint32_t> mergeEnds;
};

// Refuses what is no JSON, is nested deeper than 32, or has more than 262,144 values beside vocabulary and merges.
Result<TokenizerFile> readTokenizerFile(std::string_view text);

} // namespace mebp::text
