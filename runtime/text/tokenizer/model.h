// SPDX-License-Identifier: Apache-2.0
//
// What makes ids of a piece of text.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/fields.h"
#include "runtime/text/tokenizer/file.h"
#include "runtime/text/tokenizer/traced_text.h"

namespace mebp::text {

class Model {
public:
  virtual ~Model() = default;
  // Appends the ids of a piece, and where `spans` is not null, which of its bytes each stands for.
  virtual Status encode(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) = 0;
};

// Takes merges and scores out of `file`; its vocabulary stays there, and outlives the model.
Result<std::unique_ptr<Model>> makeModel(TokenizerFile &file);

Result<std::unique_ptr<Model>> makeBpe(TokenizerFile &file, Fields &fields);
Result<std::unique_ptr<Model>> makeUnigram(TokenizerFile &file, Fields &fields);
Result<std::unique_ptr<Model>> makeWordPiece(TokenizerFile &file, Fields &fields);

// The ids of <0x00> to <0xFF>, none where there is none.
std::vector<uint32_t> findByteTokens(const Vocabulary &vocabulary);

} // namespace mebp::text
