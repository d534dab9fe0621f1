/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, one token after another, or several at once. mebp.h includes this.
 */
#ifndef MEBP_GENERATION_H
#define MEBP_GENERATION_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text, one token after another, by a bundle that was compiled with --generate-len: it keeps the keys and values of all
 * tokens so far, so that each costs one row. It has memory of its own, beside the session's, whose adapter it runs:
 * what changes that adapter, a step for one, makes a generation forgetful only where it is rewound to 0. The session
 * must outlive it, and is in use while it runs. */
typedef struct mebp_generation mebp_generation;

/* Its memory; 0 where the bundle cannot generate. */
uint64_t mebp_generation_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options);
/* MEBP_UNSUPPORTED where the bundle cannot generate. */
mebp_code mebp_generation_create(mebp_session *session, mebp_generation **out, mebp_error *error);
void mebp_generation_destroy(mebp_generation *generation); /* NULL is allowed */
/* Extends each of `batch` sequences by `count` tokens, ids[batch * count]; the first call decides how many sequences
 * there are. logits[batch * vocabulary], or NULL, gets those of the token after the last one. Where it fails or is
 * cancelled, mebp_generation_positions says how many tokens there are: none, where a recurrence has taken some. */
mebp_code mebp_generation_append(mebp_generation *generation, const int32_t *ids, uint32_t batch, uint32_t count,
                                 float *logits, mebp_error *error);
/* Forgets all but the first `positions` tokens of each sequence. `kept` gets how many remain: fewer, maybe none, where
 * a sliding window or a recurrence has lost what the next token needs of those. A recurrence goes back to where the
 * last pass of several tokens began, which is up to 16 tokens before the end of a prompt. Computes something, and may
 * fail or be cancelled, where it cuts off a draft of a model with recurrences. */
mebp_code mebp_generation_rewind(mebp_generation *generation, uint32_t positions, uint32_t *kept, mebp_error *error);
/* Goes on with `batch` copies of the one sequence that there is. */
mebp_code mebp_generation_spread(mebp_generation *generation, uint32_t batch, mebp_error *error);
/* Tokens of each sequence so far. */
uint32_t mebp_generation_positions(const mebp_generation *generation);

/* Several tokens in one pass, and the same text: where a text repeats itself, what comes next is drafted, and what the
 * model would have chosen otherwise is cut off again. Of ids[count], a prompt and its answer so far,
 * mebp_draft_find looks for what followed the last tokens where they stood before, writes out[wanted] of that, and
 * returns `wanted`; or 0, where they never did. */
uint32_t mebp_draft_find(const int32_t *ids, uint32_t count, int32_t *out, uint32_t wanted);
/* Extends the one sequence by ids[count], up to mebp_generation_draft_limit: the token that was chosen last, and a
 * draft. On the CPU all has the bits of tokens that are appended one by one. mebp_generation_rewind cuts a draft off;
 * a model with recurrences then computes anew what is kept of it. */
mebp_code mebp_generation_append_draft(mebp_generation *generation, const int32_t *ids, uint32_t count,
                                       mebp_error *error);
/* logits[vocabulary] of the token after number `index` of those, until the generation is extended or rewound. */
mebp_code mebp_generation_draft_logits(mebp_generation *generation, uint32_t index, float *logits, mebp_error *error);
uint32_t mebp_generation_draft_limit(const mebp_generation *generation);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_GENERATION_H */
