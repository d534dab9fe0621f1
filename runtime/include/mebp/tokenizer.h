/* SPDX-License-Identifier: Apache-2.0
 *
 * libmebp_text: text to token ids and back, without Python. It reads tokenizer.json as the Python package `tokenizers`
 * writes it, and gives the same ids. A file with anything that it does not know is refused by name.
 *
 *   mebp_tokenizer *tokenizer;  mebp_tokenizer_open("NAME.mebp", &tokenizer, &error);
 *   mebp_tokenizer_encode(tokenizer, text, bytes, true, ids, room, &count, &error);
 *
 * Text is UTF-8 without NUL; what is not gives MEBP_INVALID_ARGUMENT. Ownership and errors are as in mebp.h. A
 * tokenizer is used by one thread at a time. */
#ifndef MEBP_TOKENIZER_H
#define MEBP_TOKENIZER_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mebp_tokenizer mebp_tokenizer;

/* `folder` is a bundle, whose tokenizer/ is read, or a folder that has tokenizer.json. A tokenizer_config.json beside
 * it may add tokens. A bundle without a tokenizer gives MEBP_NOT_FOUND; what cannot be read exactly, MEBP_UNSUPPORTED.
 */
mebp_code mebp_tokenizer_open(const char *folder, mebp_tokenizer **out, mebp_error *error);
/* tokenizer.json alone, in a part of an open file: `length` bytes from `offset` on, 0: up to its end. The descriptor
 * stays the caller's, and is not needed afterwards. */
mebp_code mebp_tokenizer_open_file(int descriptor, uint64_t offset, uint64_t length, mebp_tokenizer **out,
                                   mebp_error *error);
/* tokenizer.json alone, in memory that is not needed afterwards. */
mebp_code mebp_tokenizer_open_bytes(const void *data, size_t bytes, mebp_tokenizer **out, mebp_error *error);
void mebp_tokenizer_close(mebp_tokenizer *tokenizer); /* NULL is allowed */

/* One more than the largest id. */
uint32_t mebp_tokenizer_vocabulary(const mebp_tokenizer *tokenizer);
/* The id of a token as tokenizer.json writes it; MEBP_NOT_FOUND if it has none. */
mebp_code mebp_tokenizer_id(const mebp_tokenizer *tokenizer, const char *token, int32_t *id, mebp_error *error);

/* Writes ids[room] as far as they go, and in any case their number to *count. With `add_special_tokens`, those that the
 * model wants around a text, such as <bos>, are added. Names of special tokens in the text become those tokens. */
mebp_code mebp_tokenizer_encode(mebp_tokenizer *tokenizer, const char *text, size_t bytes, bool add_special_tokens,
                                int32_t *ids, size_t room, size_t *count, mebp_error *error);
/* A token of a text: its id, and the bytes [begin, end) that it stands for, whole characters: a token that has a part
 * of a character has it all. */
typedef struct mebp_token {
  int32_t id;
  size_t begin, end;
} mebp_token;
/* As mebp_tokenizer_encode with nothing added at the ends, and where in `text` each token lies: `tokenizers`' offsets,
 * in bytes. Slower, since words that come again are cut again. Writes tokens[room]. */
mebp_code mebp_tokenizer_place(mebp_tokenizer *tokenizer, const char *text, size_t bytes, mebp_token *tokens,
                               size_t room, size_t *count, mebp_error *error);
/* Writes text[room] as far as it goes, without NUL, and in any case its length to *bytes. Bytes of tokens that are not
 * UTF-8 become U+FFFD. With `skip_special_tokens`, special tokens give no text. An id without a token gives none. */
mebp_code mebp_tokenizer_decode(mebp_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special_tokens,
                                char *text, size_t room, size_t *bytes, mebp_error *error);

/* Text as ids come: each piece ends with a whole character, and all pieces together are what mebp_tokenizer_decode
 * gives. The tokenizer outlives its streams. A WordPiece tokenizer, of encoders, has none: MEBP_UNSUPPORTED. */
typedef struct mebp_tokenizer_stream mebp_tokenizer_stream;
mebp_code mebp_tokenizer_stream_create(mebp_tokenizer *tokenizer, bool skip_special_tokens, mebp_tokenizer_stream **out,
                                       mebp_error *error);
/* *text is [*bytes] and ends with NUL. It is the stream's, until its next call; often it is empty. */
mebp_code mebp_tokenizer_stream_push(mebp_tokenizer_stream *stream, int32_t id, const char **text, size_t *bytes,
                                     mebp_error *error);
/* What is still held back, such as the beginning of a character. The stream may then be used from its start. */
mebp_code mebp_tokenizer_stream_finish(mebp_tokenizer_stream *stream, const char **text, size_t *bytes,
                                       mebp_error *error);
void mebp_tokenizer_stream_free(mebp_tokenizer_stream *stream); /* NULL is allowed */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_TOKENIZER_H */
