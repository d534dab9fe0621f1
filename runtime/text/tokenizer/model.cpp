// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/model.h"

namespace mebp::text {

std::vector<uint32_t> findByteTokens(const Vocabulary &vocabulary) {
  std::vector<uint32_t> ids;
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.find(textOf("<0x%02X>", byte)));
  return ids;
}

Result<std::unique_ptr<Model>> makeModel(TokenizerFile &file) {
  const auto entry = file.rest.find("model");
  if (entry == file.rest.end())
    return failure(MEBP_CORRUPT, "has no model; save the tokenizer again");
  Fields fields(*entry, "model");
  std::string type = fields.type();
  if (type.empty()) // older files leave it out
    type = !file.scores.empty() ? "Unigram" : !file.mergeEnds.empty() ? "BPE" : "";
  if (type == "BPE" && file.scores.empty())
    return makeBpe(file, fields);
  if (type == "Unigram" && !file.scores.empty())
    return makeUnigram(file, fields);
  if (type == "WordPiece" && file.scores.empty())
    return makeWordPiece(file, fields);
  return fields.refuseType();
}

} // namespace mebp::text
