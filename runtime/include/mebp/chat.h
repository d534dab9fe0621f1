/* SPDX-License-Identifier: Apache-2.0
 *
 * libmebp_text: the model's chat template without Jinja. `mebp export` takes a template apart into pieces, tries them
 * on conversations against the template itself, and leaves tokenizer/chat.json; a template that does not come in
 * pieces has none (docs/format.md).
 *
 *   mebp_chat *chat;  mebp_chat_open("NAME.mebp", &chat, &error);
 *   mebp_chat_encode(chat, tokenizer, turns, turn_count, false, ids, labels, room, &count, &error);
 *   mebp_session_step(session, ids, labels, 1, count, &result, &error);
 *   mebp_chat_prompt(chat, tokenizer, turns, turn_count, ids, room, &count, &error);
 *
 * A conversation is the system's turn or none, then the user and the assistant in turns, all of text: a turn of another
 * role or out of this order, such as a tool's, gives MEBP_UNSUPPORTED, and so does a content that the template would
 * not write as it is. Ownership and errors are as in mebp.h. Several threads may use a chat at once. */
#ifndef MEBP_CHAT_H
#define MEBP_CHAT_H

#include "mebp/data.h" /* mebp_data_turn */
#include "mebp/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mebp_chat mebp_chat;

/* `folder` is a bundle, whose tokenizer/ is read, or a folder that has chat.json. MEBP_NOT_FOUND: it has none. */
mebp_code mebp_chat_open(const char *folder, mebp_chat **out, mebp_error *error);
/* chat.json in memory that is not needed afterwards. */
mebp_code mebp_chat_open_bytes(const void *data, size_t bytes, mebp_chat **out, mebp_error *error);
void mebp_chat_close(mebp_chat *chat); /* NULL is allowed */

/* The text of a conversation; with `is_prompt`, up to where the next answer begins, which wants the user's turn last.
 * Where the mark of the next turn ends an answer, as in GLM 4, a whole text ends with it, too. Writes text[room] as far
 * as it goes, UTF-8 without a final NUL, and in any case its length to *bytes. */
mebp_code mebp_chat_text(const mebp_chat *chat, const mebp_data_turn *turns, uint32_t turn_count, bool is_prompt,
                         char *text, size_t room, size_t *bytes, mebp_error *error);

/* Which tokens of mebp_chat_text's whole text count in the loss, as `mebp train` has it: of turns of the assistant that
 * are learned what it says and what ends it, but not a thought without a word; or, with `everything`, all but what it
 * says in turns that are not. The tokens are those of mebp_tokenizer_place, of the whole text. counts[token_count]. */
mebp_code mebp_chat_count(const mebp_chat *chat, const mebp_data_turn *turns, uint32_t turn_count, bool everything,
                          const mebp_token *tokens, size_t token_count, bool *counts, mebp_error *error);

/* Both in one call: the ids of a whole conversation, and their labels, -100 where one does not count. Each has `room`;
 * *count is in any case how many there are. */
mebp_code mebp_chat_encode(const mebp_chat *chat, mebp_tokenizer *tokenizer, const mebp_data_turn *turns,
                           uint32_t turn_count, bool everything, int32_t *ids, int32_t *labels, size_t room,
                           size_t *count, mebp_error *error);
/* The ids up to where the next answer begins, ids[room], for mebp_session_generate. */
mebp_code mebp_chat_prompt(const mebp_chat *chat, mebp_tokenizer *tokenizer, const mebp_data_turn *turns,
                           uint32_t turn_count, int32_t *ids, size_t room, size_t *count, mebp_error *error);

/* The ids with which an answer ends, of which the model writes one: ids[*count], the chat's. */
const int32_t *mebp_chat_ends(const mebp_chat *chat, uint32_t *count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_CHAT_H */
