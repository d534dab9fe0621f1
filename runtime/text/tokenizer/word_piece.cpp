// SPDX-License-Identifier: Apache-2.0
//
// WordPiece: the longest token that a word begins with, again and again.
#include "runtime/text/tokenizer/model.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

class WordPiece final : public Model {
public:
  explicit WordPiece(const Vocabulary &vocabulary) : vocabulary(vocabulary) {}

  Status read(Fields &fields) {
    const std::string unknownName = fields.text("unk_token", "[UNK]");
    prefix = fields.text("continuing_subword_prefix", "##");
    longest = fields.whole("max_input_chars_per_word", 100);
    if (Status status = fields.end(); !status.ok())
      return status;
    unknown = vocabulary.find(unknownName);
    if (unknown == Vocabulary::none)
      return failure(MEBP_CORRUPT, "model: vocab lacks unk_token, %s; save the tokenizer again", unknownName.c_str());
    return Status();
  }

  Status encode(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) override {
    const size_t spansBefore = spans ? spans->size() : 0;
    const size_t before = out.size();
    size_t characters = 0;
    for (unsigned char byte : piece)
      characters += (byte & 0xC0) != 0x80;
    bool isKnown = characters <= longest;
    for (size_t begin = 0; begin < piece.size() && isKnown;) {
      size_t end = piece.size();
      uint32_t id = Vocabulary::none;
      for (; end > begin; end = previousCharacter(piece, end)) {
        part.assign(begin ? prefix : std::string());
        part.append(piece.substr(begin, end - begin));
        if ((id = vocabulary.find(part)) != Vocabulary::none)
          break;
      }
      isKnown = id != Vocabulary::none;
      out.push_back(static_cast<int32_t>(id));
      if (spans)
        spans->push_back({begin, end});
      begin = end;
    }
    if (!isKnown) {
      out.resize(before);
      out.push_back(static_cast<int32_t>(unknown));
      if (spans) {
        spans->resize(spansBefore);
        spans->push_back({0, piece.size()});
      }
    }
    return Status();
  }

private:
  const Vocabulary &vocabulary;
  std::string prefix, part;
  uint64_t longest = 0;
  uint32_t unknown = Vocabulary::none;
};

} // namespace

Result<std::unique_ptr<Model>> makeWordPiece(TokenizerFile &file, Fields &fields) {
  auto made = std::make_unique<WordPiece>(file.vocabulary);
  if (Status status = made->read(fields); !status.ok())
    return status;
  return std::unique_ptr<Model>(std::move(made));
}

} // namespace mebp::text
