// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer: text to ids and back, as tokenizer.json says.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mebp/tokenizer.h"
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
  // The same without special tokens at the ends, and which bytes of the text each stands for.
  Result<std::vector<mebp_token>> place(std::string_view text);
  const Around &aroundText() const { return around; }
  Status decode(const int32_t *ids, size_t count, bool skipsSpecialTokens, std::string &out) const;

  bool looksAhead() const { return decoder.looksAhead; }
  // What this token gives may depend on the next one.
  bool isOpen(int32_t id) const;

private:
  Status readParts(std::string_view settings);
  Status encodeText(std::string_view text, std::vector<int32_t> &ids, std::vector<Span> *spans);
  Status encodePart(TracedText part, bool isFirst, std::vector<int32_t> &ids, std::vector<Span> *spans);
  void trim(std::string_view text, std::string_view token, bool isFirst, Span &span) const;
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

struct mebp_tokenizer {
  std::unique_ptr<mebp::text::Tokenizer> tokenizer;
};
