// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/chat/counts.h"

#include <algorithm>

#include "runtime/text/data/empty_thought.h"
#include "runtime/text/data/white_space.h"

namespace mebp::text {

namespace {

class Counter {
public:
  Counter(const ChatPieces &pieces, std::string_view text, const std::vector<mebp_token> &tokens, bool everything)
      : pieces(pieces), text(text), tokens(tokens), everything(everything), counts(tokens.size(), everything) {}

  void mark(ByteSpan answer, bool isLearned) {
    const std::string_view said = text.substr(answer.begin, answer.end - answer.begin);
    const size_t empty = endOfEmptyThought(said);
    const size_t start = answer.begin + (everything ? 0 : empty ? empty : thoughtAt(said));
    size_t first = tokens.size(), last = 0, closing = tokens.size();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto [id, begin, end] = tokens[i];
      // A special token that takes in the space after it ends the header; any other that reaches in is the answer's.
      if (begin >= answer.end || std::max(end, begin + 1) <= start || (isClosing(i) && begin < start))
        continue;
      first = std::min(first, i);
      last = i;
      if (isClosing(i))
        closing = i;
    }
    if (first == tokens.size())
      return;
    const bool isClosed = closing < tokens.size() &&
                          (tokens[closing].end >= answer.end ||
                           stripLeft(text.substr(tokens[closing].end, answer.end - tokens[closing].end)).empty());
    if (pieces.marked && !isClosed && last + 1 < tokens.size() && isClosing(last + 1))
      ++last;
    else if (!pieces.marked && isClosed)
      last = closing; // a line break after the end of a turn is not said by the assistant
    std::fill(counts.begin() + static_cast<ptrdiff_t>(first), counts.begin() + static_cast<ptrdiff_t>(last) + 1,
              isLearned);
    if (everything && empty)
      for (size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i].begin >= answer.begin && tokens[i].begin < answer.begin + empty &&
            tokens[i].end <= answer.begin + empty)
          counts[i] = false;
  }

  std::vector<bool> take() { return std::move(counts); }

private:
  bool isClosing(size_t i) const {
    return std::binary_search(pieces.closing.begin(), pieces.closing.end(), tokens[i].id);
  }
  // Behind the thought that the prompt opens; one that it also closes is the model's where it is learned at all.
  size_t thoughtAt(std::string_view said) const {
    const std::string &thought = pieces.thought;
    const bool isOpened = !thought.empty() && endOfEmptyThought(thought) != thought.size();
    return isOpened && said.substr(0, thought.size()) == thought ? thought.size() : 0;
  }

  const ChatPieces &pieces;
  std::string_view text;
  const std::vector<mebp_token> &tokens;
  bool everything;
  std::vector<bool> counts;
};

} // namespace

std::vector<bool> findCounts(const ChatPieces &pieces, const Composed &composed, const std::vector<Turn> &turns,
                             const std::vector<mebp_token> &tokens, bool everything) {
  Counter counter(pieces, composed.text, tokens, everything);
  size_t answer = 0;
  for (const Turn &turn : turns)
    if (turn.role == "assistant") {
      if (everything || turn.isLearned)
        counter.mark(composed.answers[answer], turn.isLearned);
      ++answer;
    }
  return counter.take();
}

} // namespace mebp::text
