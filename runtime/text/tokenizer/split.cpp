// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/split.h"

#include <algorithm>
#include <cctype>

#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

struct Part {
  size_t begin, end;
  bool isMatch;
};

// Puts the parts of a piece, which cover it, together, and appends them.
void join(std::vector<Part> &parts, const Piece &piece, Behavior behavior, std::vector<Piece> &out) {
  const auto put = [&](size_t begin, size_t end) {
    if (begin < end)
      out.push_back({begin, end, piece.isFirst && begin == piece.begin});
  };
  if (behavior == Behavior::isolated || behavior == Behavior::removed) {
    for (const Part &part : parts)
      if (behavior == Behavior::isolated || !part.isMatch)
        put(part.begin, part.end);
    return;
  }
  if (behavior == Behavior::mergedWithNext)
    std::reverse(parts.begin(), parts.end());
  std::vector<Part> joined;
  bool wasMatch = false;
  for (const Part &part : parts) {
    const bool joins = behavior == Behavior::contiguous ? part.isMatch == wasMatch : part.isMatch && !wasMatch;
    wasMatch = part.isMatch;
    if (!joins || joined.empty()) {
      joined.push_back(part);
    } else {
      joined.back().begin = std::min(joined.back().begin, part.begin);
      joined.back().end = std::max(joined.back().end, part.end);
    }
  }
  if (behavior == Behavior::mergedWithNext)
    std::reverse(joined.begin(), joined.end());
  for (const Part &part : joined)
    put(part.begin, part.end);
}

} // namespace

bool readBehavior(std::string name, Behavior &out) {
  // Written in either way: MergedWithNext, merged_with_next.
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  static const std::pair<const char *, Behavior> known[] = {{"removed", Behavior::removed},
                                                            {"isolated", Behavior::isolated},
                                                            {"mergedwithprevious", Behavior::mergedWithPrevious},
                                                            {"mergedwithnext", Behavior::mergedWithNext},
                                                            {"contiguous", Behavior::contiguous}};
  for (const auto &[text, behavior] : known)
    if (name == text) {
      out = behavior;
      return true;
    }
  return false;
}

Status splitAt(Pieces &pieces, const Pattern &pattern, Behavior behavior, bool isInverted) {
  std::vector<Piece> out;
  out.reserve(pieces.pieces.size());
  std::vector<Part> parts;
  std::string room;
  for (const Piece &piece : pieces.pieces) {
    const std::string_view text =
        pattern.prepare(std::string_view(pieces.text.text).substr(piece.begin, piece.end - piece.begin), room);
    parts.clear();
    size_t done = 0, begin = 0, end = 0;
    for (size_t from = 0; from < text.size();) {
      Result<bool> found = pattern.find(text, from, begin, end);
      if (!found.ok())
        return found.status();
      if (!*found)
        break;
      if (done < begin)
        parts.push_back({piece.begin + done, piece.begin + begin, isInverted});
      parts.push_back({piece.begin + begin, piece.begin + end, !isInverted});
      done = from = end;
      if (begin == end && end < text.size())
        from += characterLength(static_cast<unsigned char>(text[end]));
      else if (begin == end)
        break;
    }
    if (done < text.size())
      parts.push_back({piece.begin + done, piece.end, isInverted});
    join(parts, piece, behavior, out);
  }
  pieces.pieces = std::move(out);
  return Status();
}

void splitAt(Pieces &pieces, bool (*isMatch)(char32_t), Behavior behavior) {
  std::vector<Piece> out;
  out.reserve(pieces.pieces.size());
  std::vector<Part> parts;
  for (const Piece &piece : pieces.pieces) {
    parts.clear();
    size_t done = piece.begin;
    for (size_t at = piece.begin; at < piece.end;) {
      const size_t begin = at;
      if (!isMatch(nextCharacter(pieces.text.text, at)))
        continue;
      if (done < begin)
        parts.push_back({done, begin, false});
      parts.push_back({begin, at, true});
      done = at;
    }
    if (done < piece.end)
      parts.push_back({done, piece.end, false});
    join(parts, piece, behavior, out);
  }
  pieces.pieces = std::move(out);
}

} // namespace mebp::text
