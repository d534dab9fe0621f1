// SPDX-License-Identifier: Apache-2.0
//
// Tokens that are found in a text before it is cut into pieces: special ones, and others that were added.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/normalizer.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace mebp::text {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string shown; // when it is decoded: as it is sought, so what the normalizer makes of a normalized one
  bool singleWord = false, stripsLeft = false, stripsRight = false, isNormalized = true, isSpecial = false;
};

// A part of a text: a token, or what is between tokens.
struct Segment {
  size_t begin, end;
  const AddedToken *token; // null: none
};

class AddedTokens {
public:
  // "added_tokens" in tokenizer.json.
  Status read(const Json &list);
  // tokenizer_config.json: tokens that stand there alone, or otherwise, as transformers adds them.
  Status readSettings(const Json &settings, const Vocabulary &vocabulary);
  // Once, when all are there.
  Status complete(const Normalizer &normalizer);

  const AddedToken *find(uint32_t id) const;
  // Whether it is left out where special tokens are, which `tokenizers` looks up by what is shown.
  bool isLeftOut(const AddedToken &token) const;
  const AddedToken *find(std::string_view content) const;
  uint32_t size() const { return byId.empty() ? 0 : byId.rbegin()->first + 1; }

  // Cuts a text at those that are sought before, or after, it is normalized.
  std::vector<Segment> cut(std::string_view text, bool isNormalized) const;

private:
  using Sorted = std::vector<std::pair<std::string, const AddedToken *>>;
  Status add(const Json &entry, uint64_t id, const char *of);
  Status addNamed(const std::string &content, const Vocabulary &vocabulary);

  std::map<uint32_t, AddedToken> byId;
  std::map<std::string, uint32_t, std::less<>> byContent;
  Sorted plain, normalized; // by what is sought
};

} // namespace mebp::text
