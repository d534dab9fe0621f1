// SPDX-License-Identifier: Apache-2.0
//
// mebp/chat.h on top of what is here.
#include <algorithm>

#include "mebp/chat.h"
#include "runtime/core/edge.h"
#include "runtime/core/files.h"
#include "runtime/text/chat/counts.h"
#include "runtime/text/chat/turns.h"

using namespace mebp;
using namespace mebp::text;

namespace {

constexpr uint64_t largestFile = 16 << 20;
constexpr const char *fileName = "chat.json";

Status open(std::string_view json, const std::string &where, mebp_chat *&out) {
  Result<ChatPieces> pieces = ChatPieces::read(json);
  if (!pieces.ok())
    return pieces.status().in(where);
  out = new mebp_chat{std::move(*pieces)};
  return Status();
}

Status openFolder(const std::string &folder, mebp_chat *&out) {
  for (const std::string &path : {folder + "/tokenizer/" + fileName, folder + "/" + fileName}) {
    Result<std::string> json = readFile(path, largestFile);
    if (json.ok())
      return open(*json, path, out);
    if (json.status().code() != MEBP_NOT_FOUND)
      return json.status();
  }
  return failure(MEBP_NOT_FOUND,
                 "%s: has no chat.json; mebp export writes it where the chat template comes in pieces, and says why "
                 "where it does not",
                 folder.c_str());
}

Status checkTokens(const std::vector<mebp_token> &tokens, size_t bytes) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].begin > tokens[i].end || tokens[i].end > bytes)
      return failure(MEBP_INVALID_ARGUMENT,
                     "token %zu is of bytes %zu to %zu, and the text has %zu; give tokens of mebp_chat_text's", i,
                     tokens[i].begin, tokens[i].end, bytes);
  return Status();
}

} // namespace

mebp_code mebp_chat_open(const char *folder, mebp_chat **out, mebp_error *error) {
  return guarded(error, {{"folder", folder}, {"out", out}}, [&] { return openFolder(folder, *out); });
}

mebp_code mebp_chat_open_bytes(const void *data, size_t bytes, mebp_chat **out, mebp_error *error) {
  return guarded(error, {{"data", data}, {"out", out}},
                 [&] { return open({static_cast<const char *>(data), bytes}, fileName, *out); });
}

void mebp_chat_close(mebp_chat *chat) { delete chat; }

mebp_code mebp_chat_text(const mebp_chat *chat, const mebp_data_turn *turns, uint32_t turn_count, bool is_prompt,
                         char *text, size_t room, size_t *bytes, mebp_error *error) {
  return guarded(error, {{"chat", chat}, {"turns", turns}, {"text", room ? text : ""}, {"bytes", bytes}}, [&] {
    Result<std::vector<Turn>> read = readTurns(turns, turn_count);
    if (!read.ok())
      return read.status();
    Result<Composed> composed = chat->pieces.compose(*read, is_prompt);
    if (!composed.ok())
      return composed.status();
    *bytes = composed->text.size();
    std::copy_n(composed->text.begin(), std::min(room, *bytes), text);
    return Status();
  });
}

mebp_code mebp_chat_count(const mebp_chat *chat, const mebp_data_turn *turns, uint32_t turn_count, bool everything,
                          const mebp_token *tokens, size_t token_count, bool *counts, mebp_error *error) {
  return guarded(error, {{"chat", chat}, {"turns", turns}, {"tokens", tokens}, {"counts", counts}}, [&] {
    Result<std::vector<Turn>> read = readTurns(turns, turn_count);
    if (!read.ok())
      return read.status();
    Result<Composed> composed = chat->pieces.compose(*read, false);
    if (!composed.ok())
      return composed.status();
    const std::vector<mebp_token> given(tokens, tokens + token_count);
    if (Status status = checkTokens(given, composed->text.size()); !status.ok())
      return status;
    const std::vector<bool> found = findCounts(chat->pieces, *composed, *read, given, everything);
    std::copy(found.begin(), found.end(), counts);
    return Status();
  });
}

const int32_t *mebp_chat_ends(const mebp_chat *chat, uint32_t *count) {
  if (count)
    *count = chat ? static_cast<uint32_t>(chat->pieces.stop.size()) : 0;
  return chat ? chat->pieces.stop.data() : nullptr;
}
