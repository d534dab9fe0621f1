// SPDX-License-Identifier: Apache-2.0
//
// What of mebp/chat.h takes a tokenizer, too.
#include "runtime/text/chat/conversation.h"

#include <algorithm>

#include "mebp/chat.h"
#include "runtime/text/chat/counts.h"
#include "runtime/text/chat/turns.h"
#include "runtime/text/data/token_store.h"

using namespace mebp;
using namespace mebp::text;

Status mebp::text::encodeConversation(const ChatPieces &pieces, Tokenizer &tokenizer, const mebp_data_turn *turns,
                                      uint32_t turnCount, bool everything, std::vector<int32_t> &ids,
                                      std::vector<bool> &counts) {
  Result<std::vector<Turn>> read = readTurns(turns, turnCount);
  if (!read.ok())
    return read.status();
  Result<Composed> composed = pieces.compose(*read, false);
  if (!composed.ok())
    return composed.status();
  Result<std::vector<mebp_token>> tokens = tokenizer.place(composed->text);
  if (!tokens.ok())
    return tokens.status();
  for (const mebp_token &token : *tokens)
    ids.push_back(token.id);
  counts = findCounts(pieces, *composed, *read, *tokens, everything);
  return Status();
}

mebp_code mebp_chat_encode(const mebp_chat *chat, mebp_tokenizer *tokenizer, const mebp_data_turn *turns,
                           uint32_t turn_count, bool everything, int32_t *ids, int32_t *labels, size_t room,
                           size_t *count, mebp_error *error) {
  const int32_t none = 0;
  return guarded(error,
                 {{"chat", chat},
                  {"tokenizer", tokenizer},
                  {"turns", turns},
                  {"ids", room ? ids : &none},
                  {"labels", room ? labels : &none},
                  {"count", count}},
                 [&] {
                   std::vector<int32_t> found;
                   std::vector<bool> counts;
                   if (Status status = encodeConversation(chat->pieces, *tokenizer->tokenizer, turns, turn_count,
                                                          everything, found, counts);
                       !status.ok())
                     return status;
                   *count = found.size();
                   for (size_t i = 0; i < std::min(room, found.size()); ++i) {
                     ids[i] = found[i];
                     labels[i] = counts[i] ? found[i] : ignoredLabel;
                   }
                   return Status();
                 });
}

mebp_code mebp_chat_prompt(const mebp_chat *chat, mebp_tokenizer *tokenizer, const mebp_data_turn *turns,
                           uint32_t turn_count, int32_t *ids, size_t room, size_t *count, mebp_error *error) {
  const int32_t none = 0;
  return guarded(
      error,
      {{"chat", chat}, {"tokenizer", tokenizer}, {"turns", turns}, {"ids", room ? ids : &none}, {"count", count}}, [&] {
        Result<std::vector<Turn>> read = readTurns(turns, turn_count);
        if (!read.ok())
          return read.status();
        Result<Composed> composed = chat->pieces.compose(*read, true);
        if (!composed.ok())
          return composed.status();
        std::vector<int32_t> found;
        if (Status status = tokenizer->tokenizer->encode(composed->text, false, found); !status.ok())
          return status;
        *count = found.size();
        std::copy_n(found.begin(), std::min(room, found.size()), ids);
        return Status();
      });
}
