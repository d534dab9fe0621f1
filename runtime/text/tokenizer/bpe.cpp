// SPDX-License-Identifier: Apache-2.0
//
// Byte-pair encoding: of all neighbours that may be merged, those with the lowest rank are, the leftmost first.
#include <queue>
#include <unordered_map>

#include "runtime/text/tokenizer/model.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

struct Merge {
  uint32_t rank, id;
};

// Merges by their pair, in one table.
class Merges {
public:
  void reserve(size_t count) {
    size_t room = 16;
    while (room < 2 * count)
      room *= 2;
    keys.assign(room, vacant);
    values.resize(room);
  }
  void put(uint32_t left, uint32_t right, Merge merge) {
    const size_t at = place(left, right);
    keys[at] = join(left, right);
    values[at] = merge;
  }
  const Merge *find(uint32_t left, uint32_t right) const {
    const size_t at = place(left, right);
    return keys[at] == vacant ? nullptr : &values[at];
  }

private:
  static constexpr uint64_t vacant = UINT64_MAX;
  static uint64_t join(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t place(uint32_t left, uint32_t right) const {
    const uint64_t key = join(left, right);
    size_t at = (key * 0x9E3779B97F4A7C15u) >> 32 & (keys.size() - 1);
    while (keys[at] != vacant && keys[at] != key)
      at = (at + 1) & (keys.size() - 1);
    return at;
  }
  std::vector<uint64_t> keys;
  std::vector<Merge> values;
};

struct Symbol {
  uint32_t id;
  int32_t before, after; // -1: none
  uint32_t bytes;        // of the piece
  bool isGone;
};

struct Candidate {
  uint32_t rank, id;
  int32_t at;
  bool operator<(const Candidate &other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
};

class Bpe final : public Model {
public:
  explicit Bpe(const Vocabulary &vocabulary) : vocabulary(vocabulary) {}

  Status read(TokenizerFile &file, Fields &fields) {
    unknownName = fields.text("unk_token", "");
    prefix = fields.text("continuing_subword_prefix", "");
    suffix = fields.text("end_of_word_suffix", "");
    fusesUnknown = fields.flag("fuse_unk", false);
    ignoresMerges = fields.flag("ignore_merges", false);
    if (fields.flag("byte_fallback", false))
      bytes = findByteTokens(vocabulary);
    if (const Json *dropout = fields.find("dropout"); dropout && (!dropout->is_number() || dropout->get<double>() != 0))
      fields.refuse("dropout");
    if (Status status = fields.end(); !status.ok())
      return status;
    if (!unknownName.empty())
      unknown = vocabulary.find(unknownName);
    return takeMerges(file);
  }

  Status encode(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) override {
    if (piece.empty())
      return Status();
    constexpr size_t longestKept = 64, mostKept = 8192;
    if (spans || piece.size() > longestKept)
      return encodeAnew(piece, out, spans);
    key.assign(piece);
    if (const auto found = kept.find(key); found != kept.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
      return Status();
    }
    const size_t before = out.size();
    if (Status status = encodeAnew(piece, out, nullptr); !status.ok())
      return status;
    if (kept.size() >= mostKept)
      kept.clear();
    kept.emplace(key, std::vector<int32_t>(out.begin() + static_cast<ptrdiff_t>(before), out.end()));
    return Status();
  }

private:
  Status takeMerges(TokenizerFile &file) {
    const size_t count = file.mergeEnds.size() / 2;
    merges.reserve(count);
    std::string joined;
    size_t begin = 0;
    const auto next = [&](size_t index) {
      const std::string_view text = std::string_view(file.merges).substr(begin, file.mergeEnds[index] - begin);
      begin = file.mergeEnds[index];
      return text;
    };
    for (size_t rank = 0; rank < count; ++rank) {
      const std::string_view left = next(2 * rank), right = next(2 * rank + 1);
      joined.assign(left);
      joined.append(right.substr(std::min(prefix.size(), right.size())));
      const uint32_t ids[] = {vocabulary.find(left), vocabulary.find(right), vocabulary.find(joined)};
      for (uint32_t id : ids)
        if (id == Vocabulary::none)
          return failure(MEBP_CORRUPT, "model: merge %zu is of tokens that vocab lacks; save the tokenizer again",
                         rank);
      merges.put(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
    }
    file.merges = {};
    file.mergeEnds = {};
    return Status();
  }

  void add(uint32_t id, size_t bytesOf) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1, static_cast<uint32_t>(bytesOf), false});
  }

  Status encodeAnew(std::string_view piece, std::vector<int32_t> &out, std::vector<Span> *spans) {
    if (ignoresMerges)
      if (const uint32_t id = vocabulary.find(piece); id != Vocabulary::none) {
        out.push_back(static_cast<int32_t>(id));
        if (spans)
          spans->push_back({0, piece.size()});
        return Status();
      }
    symbols.clear();
    if (Status status = takeCharacters(piece); !status.ok())
      return status;
    if (!symbols.empty())
      symbols.back().after = -1;
    mergeAll();
    size_t done = 0;
    for (const Symbol &symbol : symbols)
      if (!symbol.isGone) {
        out.push_back(static_cast<int32_t>(symbol.id));
        if (spans)
          spans->push_back({done, done + symbol.bytes});
        done += symbol.bytes;
      }
    return Status();
  }

  // What is unknown waits for the next known character: bytes of others in between stand before it, as in tokenizers.
  Status takeCharacters(std::string_view piece) {
    size_t waiting = 0; // bytes
    for (size_t at = 0; at < piece.size();) {
      const size_t begin = at;
      at += characterLength(static_cast<unsigned char>(piece[at]));
      std::string_view text = piece.substr(begin, at - begin);
      if (const bool isLast = at >= piece.size(); (begin && !prefix.empty()) || (isLast && !suffix.empty())) {
        marked.assign(begin ? prefix : std::string());
        marked.append(text);
        if (isLast)
          marked.append(suffix);
        text = marked;
      }
      if (const uint32_t id = vocabulary.find(text); id != Vocabulary::none) {
        if (waiting)
          add(unknown, waiting);
        waiting = 0;
        add(id, at - begin);
        continue;
      }
      if (addBytes(text) || unknownName.empty())
        continue;
      if (unknown == Vocabulary::none)
        return failure(MEBP_UNSUPPORTED, "the text has what no token has, and vocab lacks %s; save the tokenizer again",
                       unknownName.c_str());
      if (waiting && !fusesUnknown) {
        add(unknown, waiting);
        waiting = 0;
      }
      waiting += at - begin;
    }
    if (waiting)
      add(unknown, waiting);
    return Status();
  }

  bool addBytes(std::string_view text) {
    if (bytes.empty())
      return false;
    for (unsigned char byte : text)
      if (bytes[byte] == Vocabulary::none)
        return false;
    for (unsigned char byte : text)
      add(bytes[byte], 1);
    return true;
  }

  void consider(int32_t at) {
    const Symbol &left = symbols[static_cast<size_t>(at)];
    if (const Merge *merge = merges.find(left.id, symbols[static_cast<size_t>(left.after)].id))
      queue.push({merge->rank, merge->id, at});
  }

  void mergeAll() {
    for (size_t at = 0; at + 1 < symbols.size(); ++at)
      consider(static_cast<int32_t>(at));
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol &left = symbols[static_cast<size_t>(top.at)];
      if (left.isGone || left.after < 0)
        continue;
      Symbol &right = symbols[static_cast<size_t>(left.after)];
      const Merge *merge = merges.find(left.id, right.id);
      if (!merge || merge->id != top.id)
        continue;
      left.id = top.id;
      left.after = right.after;
      left.bytes += right.bytes;
      right.isGone = true;
      if (left.after >= 0)
        symbols[static_cast<size_t>(left.after)].before = top.at;
      if (left.before >= 0)
        consider(left.before);
      if (left.after >= 0)
        consider(top.at);
    }
  }

  const Vocabulary &vocabulary;
  Merges merges;
  std::string unknownName, prefix, suffix, marked, key;
  uint32_t unknown = Vocabulary::none;
  bool fusesUnknown = false, ignoresMerges = false;
  std::vector<uint32_t> bytes; // empty: no fallback
  std::vector<Symbol> symbols;
  std::priority_queue<Candidate> queue;
  std::unordered_map<std::string, std::vector<int32_t>> kept; // of words that come again
};

} // namespace

Result<std::unique_ptr<Model>> makeBpe(TokenizerFile &file, Fields &fields) {
  auto made = std::make_unique<Bpe>(file.vocabulary);
  if (Status status = made->read(file, fields); !status.ok())
    return status;
  return std::unique_ptr<Model>(std::move(made));
}

} // namespace mebp::text
