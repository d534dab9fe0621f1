// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer: text to ids and back, as tokenizer.json says.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/added_tokens.h"
#include "runtime/text/tokenizer/decoder.h"
#include "runtime/text/tokenizer/model.h"
#include "runtime/text/tokenizer/post_processor.h"
#include "runtime/text/tokenizer/pre_tokenizer.h"

namespace mebp::text {

class Tokenizer {
public:
  // `json` is that of tokenizer.json; `settings` of tokenizer_config.json, or empty.
  static Result<std::unique_ptr<Tokenizer>> read(std::string_view json, std::string_view settings);

  uint32_t size() const { return std::max(file.vocabulary.size(), added.size()); }
  uint32_t find(std::string_view token) const; // or Vocabulary::none

  // Appends the ids of text, which is refused where it is not UTF-8 or has NUL.
  Status encode(std::string_view text, bool addsSpecialTokens, std::vector<int32_t> &out);
  Status decode(const int32_t *ids, size_t count, bool skipsSpecialTokens, std::string &out) const;

  bool looksAhead() const { return decoder.looksAhead; }
  // What this token gives may depend on the next one.
  bool isOpen(int32_t id) const;

private:
  Status readParts(std::string_view settings);
  Status encodePart(std::string_view text, bool isFirst, std::vector<int32_t> &out);
  std::string textOfToken(uint32_t id) const;

  TokenizerFile file;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer preTokenizer;
  std::unique_ptr<Model> model;
  Around around;
  Decoder decoder;
};

} // namespace mebp::text
