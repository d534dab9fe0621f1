// SPDX-License-Identifier: Apache-2.0
//
// Unigram: of all ways to cut a piece into tokens, that with the highest sum of scores.
#include <algorithm>
#include <numeric>

#include "runtime/text/tokenizer/model.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

class Unigram final : public Model {
public:
  explicit Unigram(const Vocabulary &vocabulary) : vocabulary(vocabulary) {}

  Status read(TokenizerFile &file, Fields &fields) {
    unknown = static_cast<uint32_t>(std::min<uint64_t>(fields.whole("unk_id", Vocabulary::none), Vocabulary::none));
    if (fields.flag("byte_fallback", false))
      bytes = findByteTokens(vocabulary);
    if (Status status = fields.end(); !status.ok())
      return status;
    scores = std::move(file.scores);
    if (unknown != Vocabulary::none && unknown >= scores.size())
      return failure(MEBP_CORRUPT, "model: unk_id is beyond vocab; save the tokenizer again");
    unknownScore = *std::min_element(scores.begin(), scores.end()) - 10.0;
    sorted.resize(scores.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::sort(sorted.begin(), sorted.end(),
              [&](uint32_t left, uint32_t right) { return vocabulary.token(left) < vocabulary.token(right); });
    for (size_t index = 1; index < sorted.size(); ++index)
      if (vocabulary.token(sorted[index - 1]) == vocabulary.token(sorted[index]))
        return failure(MEBP_UNSUPPORTED, "model: vocab has '%.*s' twice; save the tokenizer again",
                       static_cast<int>(vocabulary.token(sorted[index]).size()),
                       vocabulary.token(sorted[index]).data());
    for (size_t index = sorted.size(); index-- > 0;) {
      const std::string_view token = vocabulary.token(sorted[index]);
      if (!token.empty())
        begins[static_cast<unsigned char>(token[0])] = static_cast<uint32_t>(index);
    }
    for (size_t index = 0; index < sorted.size(); ++index) {
      const std::string_view token = vocabulary.token(sorted[index]);
      if (!token.empty())
        ends[static_cast<unsigned char>(token[0])] = static_cast<uint32_t>(index + 1);
    }
    return Status();
  }

  Status encode(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) override {
    if (piece.empty())
      return Status();
    best.assign(piece.size() + 1, Node());
    for (size_t at = 0; at < piece.size();) {
      const size_t length = std::min(piece.size() - at, characterLength(static_cast<unsigned char>(piece[at])));
      bool hasOne = false;
      const double soFar = best[at].score;
      forEachPrefix(piece.substr(at), [&](size_t bytesOf, uint32_t id) {
        reach(at + bytesOf, at, soFar + scores[id], id);
        hasOne |= bytesOf == length;
      });
      if (!hasOne) {
        if (unknown == Vocabulary::none)
          return failure(MEBP_UNSUPPORTED, "the text has what no token has, and the model has no unk_id; "
                                           "save the tokenizer again");
        reach(at + length, at, soFar + unknownScore, unknown);
      }
      at += length;
    }
    takeBack(piece, out, spans);
    return Status();
  }

private:
  struct Node {
    double score = 0;
    uint32_t id = 0;
    size_t from = SIZE_MAX;
  };

  void reach(size_t at, size_t from, double score, uint32_t id) {
    Node &node = best[at];
    if (node.from == SIZE_MAX || score > node.score)
      node = {score, id, from};
  }

  // Tokens that `text` begins with, the shortest first: the range of those that begin alike narrows by a byte.
  template <typename Found> void forEachPrefix(std::string_view text, const Found &found) const {
    const auto first = static_cast<unsigned char>(text[0]);
    auto begin = sorted.begin() + begins[first], end = sorted.begin() + ends[first];
    for (size_t length = 1; begin < end; ++length) {
      if (vocabulary.token(*begin).size() == length)
        found(length, *begin++);
      if (length >= text.size())
        return;
      const auto byte = static_cast<unsigned char>(text[length]);
      const auto at = [&](uint32_t id) { return static_cast<unsigned char>(vocabulary.token(id)[length]); };
      begin = std::partition_point(begin, end, [&](uint32_t id) { return at(id) < byte; });
      end = std::partition_point(begin, end, [&](uint32_t id) { return at(id) == byte; });
    }
  }

  // Neighbours that are unknown become one.
  void takeBack(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) {
    std::vector<Span> parts; // the last first
    bool wasUnknown = false;
    for (size_t end = piece.size(); end > 0; end = best[end].from) {
      const bool isUnknown = best[end].id == unknown;
      if (isUnknown && wasUnknown)
        parts.back().begin = best[end].from;
      else
        parts.push_back({best[end].from, end});
      wasUnknown = isUnknown;
    }
    const auto put = [&](uint32_t id, Span part) {
      out.push_back(static_cast<int32_t>(id));
      if (spans)
        spans->push_back(part);
    };
    for (size_t index = parts.size(); index-- > 0;) {
      const std::string_view part = piece.substr(parts[index].begin, parts[index].end - parts[index].begin);
      const uint32_t id = vocabulary.find(part);
      const bool hasBytes =
          id == Vocabulary::none && !bytes.empty() &&
          std::all_of(part.begin(), part.end(), [&](unsigned char byte) { return bytes[byte] != Vocabulary::none; });
      if (hasBytes)
        for (unsigned char byte : part)
          put(bytes[byte], parts[index]);
      else
        put(id == Vocabulary::none ? unknown : id, parts[index]);
    }
  }

  const Vocabulary &vocabulary;
  std::vector<double> scores;
  std::vector<uint32_t> sorted; // ids by their token's bytes
  uint32_t begins[256] = {}, ends[256] = {};
  uint32_t unknown = Vocabulary::none;
  double unknownScore = 0;
  std::vector<uint32_t> bytes;
  std::vector<Node> best;
};

} // namespace

Result<std::unique_ptr<Model>> makeUnigram(TokenizerFile &file, Fields &fields) {
  auto made = std::make_unique<Unigram>(file.vocabulary);
  if (Status status = made->read(file, fields); !status.ok())
    return status;
  return std::unique_ptr<Model>(std::move(made));
}

} // namespace mebp::text
