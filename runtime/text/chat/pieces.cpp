// SPDX-License-Identifier: Apache-2.0
//
// How pieces are put together; read_pieces.cpp reads them.
#include "runtime/text/chat/pieces.h"

#include <algorithm>

#include "format/utf8.h"
#include "runtime/text/data/white_space.h"

namespace mebp::text {

static char onlyOf(Trimmed trimmed) {
  return trimmed == Trimmed::LineBreaks ? '\n' : trimmed == Trimmed::Spaces ? ' ' : '\0';
}

std::string_view Trim::of(std::string_view content) const {
  if (left != Trimmed::Nothing)
    content = stripLeft(content, onlyOf(left));
  return right == Trimmed::Nothing ? content : stripRight(content, onlyOf(right));
}

static void appendAround(std::string &text, const std::vector<std::string> &parts, std::string_view system) {
  for (size_t i = 0; i < parts.size(); ++i)
    text.append(i ? system : std::string_view()).append(parts[i]);
}

static Status refusal(size_t turn, const std::string &why) {
  return failure(MEBP_UNSUPPORTED, "turn %zu %s", turn, why.c_str());
}

static Status checkOrder(const std::vector<Turn> &turns, bool isPrompt) {
  const bool hasSystem = !turns.empty() && turns[0].role == "system";
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string &role = turns[i].role;
    if (role == "system" && i == 0)
      continue;
    if (role != "system" && role != "user" && role != "assistant")
      return refusal(i, "has the role \"" + role + "\"; chat.json has system, user and assistant");
    if (const char *wanted = (i - hasSystem) % 2 ? "assistant" : "user"; role != wanted)
      return refusal(i, "is the " + role + "'s; give the " + wanted + "'s, which is next");
  }
  if (turns.size() == hasSystem)
    return failure(MEBP_INVALID_ARGUMENT, "the conversation has no turn of the user; give one");
  if (isPrompt && turns.back().role != "user")
    return refusal(turns.size() - 1, "is the assistant's; end a prompt with the user's");
  return Status();
}

Status ChatPieces::check(const std::vector<Turn> &turns, bool isPrompt) const {
  if (Status status = checkOrder(turns, isPrompt); !status.ok())
    return status;
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string &content = turns[i].content;
    if (content.find('\0') != std::string::npos)
      return refusal(i, "has a NUL; leave it out");
    if (!format::isUtf8(content))
      return refusal(i, "is not UTF-8; convert it");
    const Speaker speaker = turns[i].role == "system" ? System : turns[i].role == "user" ? User : Assistant;
    for (const std::string &mark : refused[speaker]) {
      if (mark.empty() && stripLeft(content).empty())
        return refusal(i, "has no word, which the chat template writes otherwise; leave the turn out");
      if (!mark.empty() && content.find(mark) != std::string::npos)
        return refusal(i, "has \"" + mark + "\", which the chat template reads as its own; leave it out");
    }
  }
  return Status();
}

Result<Composed> ChatPieces::compose(const std::vector<Turn> &turns, bool isPrompt) const {
  if (Status status = check(turns, isPrompt); !status.ok())
    return status;
  const bool begins = turns[0].role == "system";
  const std::optional<PieceForm> &withSystem = forms[1][isPrompt];
  std::string_view system;
  if (begins)
    system = withSystem ? withSystem->system.of(turns[0].content) : std::string_view(turns[0].content);
  const bool hasSystem = begins && !(skipsEmptySystem && system.empty());
  const std::optional<PieceForm> &form = forms[hasSystem][isPrompt];
  Composed made;
  const size_t count = turns.size() - begins;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<uint32_t> number =
        form ? form->places[i % 2][i >= 2][std::min<size_t>(count - 1 - i, 2)] : std::nullopt;
    if (!number)
      return refusal(begins + i, hasSystem ? "is one that the chat template refuses after a system's turn; leave "
                                             "that out"
                                           : "is one that the chat template refuses; give a question and its answer");
    const ChatPiece &piece = pieces[*number];
    appendAround(made.text, piece.before, system);
    const size_t begin = made.text.size();
    made.text.append(piece.within).append(piece.trim.of(turns[begins + i].content)).append(piece.end);
    if (i % 2)
      made.answers.push_back({begin, made.text.size()});
    appendAround(made.text, piece.after, system);
  }
  return made;
}

} // namespace mebp::text
