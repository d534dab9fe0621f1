// SPDX-License-Identifier: Apache-2.0
//
// A chat template as pieces: what it writes before, around and behind the turns of a conversation. docs/format.md has
// the file, tokenizer/chat.json; `mebp export` writes it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/status.h"
#include "runtime/text/data/sample.h"

namespace mebp::text {

// What is cut off the ends of a content.
enum class Trimmed { Nothing, LineBreaks, Spaces, WhiteSpace };
struct Trim {
  Trimmed left = Trimmed::Nothing, right = Trimmed::Nothing;
  std::string_view of(std::string_view content) const;
};

// Of a turn. Between the texts of `before` and of `after` stands what the system says; between `within` and `end`,
// both included, is the assistant's answer.
struct ChatPiece {
  std::vector<std::string> before, after;
  std::string within, end;
  Trim trim;
};

enum Speaker : uint8_t { System, User, Assistant };

// The pieces of conversations with or without a system's turn, as a whole or as a prompt.
struct PieceForm {
  Trim system;
  // Of the user and of the assistant, by whether it is not their first turn, and by how many follow, 2 standing for
  // more: a number of a piece, or none where the template refuses such a conversation.
  std::array<std::array<std::array<std::optional<uint32_t>, 3>, 2>, 2> places;
};

struct ByteSpan {
  size_t begin = 0, end = 0;
};

struct Composed {
  std::string text;
  std::vector<ByteSpan> answers; // one for each turn of the assistant
};

class ChatPieces {
public:
  // Of chat.json. Refuses, by the key, what it does not know or what is missing.
  static Result<ChatPieces> read(std::string_view json);

  // Refuses what is not the system's turn or none, then the user's and the assistant's by turns, and contents that the
  // template treats as its own.
  Result<Composed> compose(const std::vector<Turn> &turns, bool isPrompt) const;

  bool marked = false;                // whether the template itself says what the assistant's text is
  std::vector<int32_t> stop, closing; // ids in order: what ends an answer, and all that may close a turn
  std::string thought;                // what a prompt opens behind the assistant's header

private:
  Status check(const std::vector<Turn> &turns, bool isPrompt) const;

  std::vector<ChatPiece> pieces;
  std::optional<PieceForm> forms[2][2]; // by whether there is a system's turn, and whether it is a prompt
  std::vector<std::string> refused[3];  // by speaker
  bool skipsEmptySystem = false;
};

} // namespace mebp::text

struct mebp_chat {
  mebp::text::ChatPieces pieces;
};
