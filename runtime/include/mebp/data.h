/* SPDX-License-Identifier: Apache-2.0
 *
 * libmebp_text: files of JSON lines as rows of tokens, a step's at a time, without Python. Rows, labels and their order
 * are those of `mebp train` with the same options and tokens (docs/data.md).
 *
 *   mebp_token_source source;  mebp_token_source_open("NAME.mebp", &source, &error);
 *   mebp_data *data;  mebp_data_open("chat.jsonl", &source, &options, &data, &error);
 *   mebp_data_step(data, 0, rows, ids, labels, starts, &batch, &sequence, &error);
 *   mebp_session_step(session, ids, labels, batch, sequence, &result, &error);
 *
 * A line is {"text"}, {"prompt", "completion"} or {"messages"} with turns {"role", "content"} of text. "train",
 * "weight", "loss_mask", "loss", "trainable" or "label" with 0 or false says of a sample, or of a turn of the
 * assistant, that it is not learned. Any other form or key is refused, with the line. Ownership, threads and errors are
 * as in mebp.h. */
#ifndef MEBP_DATA_H
#define MEBP_DATA_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A turn of a conversation: its role and its text in UTF-8, `bytes` long. `learned`: of the assistant's, that no mark
 * leaves it out. */
typedef struct mebp_data_turn {
  const char *role, *text;
  size_t bytes;
  bool learned;
} mebp_data_turn;

/* What makes tokens: the tokenizer and the chat template of the model, whichever program has them. Its functions are
 * called by mebp_data_open alone, and what they give but MEBP_OK ends it. Each writes its numbers if `room` has place
 * for them, and in any case their count. */
typedef struct mebp_token_source {
  size_t size MEBP_SIZE_OF(mebp_token_source);
  void *user;
  const int32_t *before; /* ids that the model wants before a text that stands alone, such as <bos> */
  uint32_t before_count;
  int32_t end_of_text;     /* what stands between documents and fills up rows */
  int32_t end_of_sequence; /* what is put behind a completion that has none of `stops` */
  const int32_t *stops;    /* with which a completion is finished */
  uint32_t stop_count;
  /* The ids of a text, without any added at its ends. */
  mebp_code (*encode)(void *user, const char *text, size_t bytes, int32_t *ids, size_t room, size_t *count,
                      mebp_error *error);
  /* The ids of a whole conversation, and of each whether it counts: what the assistant says in turns that are learned,
   * with what ends them; or, with `everything`, all but what it says in turns that are not. NULL: conversations are
   * refused. */
  mebp_code (*compose)(void *user, const mebp_data_turn *turns, uint32_t turn_count, bool everything, int32_t *ids,
                       bool *counts, size_t room, size_t *count, mebp_error *error);
} mebp_token_source;
static inline void mebp_token_source_init(mebp_token_source *source) {
  memset((void *)source, 0, sizeof(*source));
  source->size = sizeof(*source);
}
/* The bundle's own tokenizer, chat template and ends of texts, as `mebp train` takes them. One without pieces of its
 * template has no `compose`. `out` is the library's to free: mebp_token_source_close. MEBP_NOT_FOUND: no tokenizer. */
mebp_code mebp_token_source_open(const char *bundle, mebp_token_source *out, mebp_error *error);
void mebp_token_source_close(mebp_token_source *source); /* one that was never opened, but initialized, is allowed */

typedef struct mebp_data_options {
  size_t size MEBP_SIZE_OF(mebp_data_options);
  const char *loss_on; /* "assistant" (NULL: this), "last", "all" or "turns", as --loss-on */
  uint32_t length;     /* tokens of a row at most: what is longer is cut */
  bool shares_rows;    /* several samples in a row, for a bundle with info.packs */
  uint64_t seed;       /* of where samples stand, and of the order in which rows come */
  const char *folder;  /* on a disk, where tokens go that have more than 4 MiB; NULL: $TMPDIR, or /var/tmp */
} mebp_data_options;
static inline void mebp_data_options_init(mebp_data_options *options) {
  memset((void *)options, 0, sizeof(*options));
  options->size = sizeof(*options);
}

/* Reads the whole file a line at a time, and keeps its tokens, in 4 bytes each and a bit. Neither `source` nor
 * `options` is needed afterwards. */
typedef struct mebp_data mebp_data;
mebp_code mebp_data_open(const char *path, const mebp_token_source *source, const mebp_data_options *options,
                         mebp_data **out, mebp_error *error);
void mebp_data_close(mebp_data *data); /* NULL is allowed */

uint64_t mebp_data_rows(const mebp_data *data);
/* Whether samples share rows, so that a step has starts: never of text, which fills its rows. */
bool mebp_data_has_starts(const mebp_data *data);
/* Of all rows with their labels: a run that goes on must see the same. */
uint32_t mebp_data_checksum(const mebp_data *data);
/* What was cut or left out, for people, a line each; NULL from the last one on. */
const char *mebp_data_note(const mebp_data *data, uint32_t index);

/* The rows of a step, counted from 0, that takes `rows` of them: ids, labels (-100: does not count) and, where there
 * are any, starts (mebp/packing.h), [*batch, *sequence], each with room for rows * options.length. Each epoch is an
 * order of its own; its last step may have fewer rows. `starts` may be NULL where there are none. */
mebp_code mebp_data_step(mebp_data *data, uint64_t step, uint32_t rows, int32_t *ids, int32_t *labels, int32_t *starts,
                         uint32_t *batch, uint32_t *sequence, mebp_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_DATA_H */
