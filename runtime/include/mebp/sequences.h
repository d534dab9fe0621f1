/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over sequences whose coefficients the caller makes, as preferences and rewards need it. mebp.h includes this.
 */
#ifndef MEBP_SEQUENCES_H
#define MEBP_SEQUENCES_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How log-probabilities are computed; NULL has the defaults. */
typedef struct mebp_scoring {
  size_t size MEBP_SIZE_OF(mebp_scoring);
  double temperature; /* logits are divided by it; 0: 1 */
  /* By the base model; or with these values, one pointer for each trainable, NULL for what the base model has. The
   * session's own are set aside where it keeps gradients, so it has to have been created with accumulate or
   * return_gradients. */
  bool by_base;
  const float *const *trainables; /* NULL: the session's own */
} mebp_scoring;
static inline void mebp_scoring_init(mebp_scoring *scoring) {
  memset((void *)scoring, 0, sizeof(*scoring));
  scoring->size = sizeof(*scoring);
}
/* Where to write what the head gives of each label: arrays [batch, sequence] of the caller's, NULL for what is not
 * wanted. Each has it at the label's place, and 0 where there is none. */
typedef struct mebp_scores {
  size_t size MEBP_SIZE_OF(mebp_scores);
  float *log_probabilities; /* in nats */
  float *entropy;           /* of the distribution that the label is from */
  float *values;            /* of a bundle that was compiled with --value-head */
} mebp_scores;
static inline void mebp_scores_init(mebp_scores *scores) {
  memset((void *)scores, 0, sizeof(*scores));
  scores->size = sizeof(*scores);
}
/* The derivatives of the loss by each of these, likewise at the labels' places; NULL for zeros. */
typedef struct mebp_coefficients {
  size_t size MEBP_SIZE_OF(mebp_coefficients);
  const float *log_probabilities;
  const float *entropy; /* of a bundle that was compiled with --entropy-bonus */
  const float *values;  /* of one with --value-head */
} mebp_coefficients;
static inline void mebp_coefficients_init(mebp_coefficients *coefficients) {
  memset((void *)coefficients, 0, sizeof(*coefficients));
  coefficients->size = sizeof(*coefficients);
}
/* mebp_session_log_probabilities at another temperature, or by another adapter. */
mebp_code mebp_session_score(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                             uint32_t sequence, const mebp_scoring *scoring, const mebp_scores *out, mebp_error *error);
/* A step whose caller makes the coefficients when it has seen all that they depend on: sequences one after another,
 * so that a step holds the activations of one however many it has. Needs options.accumulate.
 * begin_sequence gives what mebp_session_score gives; the sequence is open until another call computes.
 * end_sequence takes the coefficients, and adds the gradient to the step's sum. With `pending` the coefficients lack a
 * factor that comes later, with settle: for that it is the step's first, or the session has options.pending_gradients.
 * apply is the update, clipped as the options say; of its result, loss and tokens are 0. discard forgets the sum. Where
 * end_sequence or apply fails, the sum is forgotten, too; nothing else has changed. mebp_session_read_gradient reads
 * the sum. */
mebp_code mebp_session_begin_sequence(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                                      uint32_t sequence, const mebp_scoring *scoring, const mebp_scores *out,
                                      mebp_error *error);
bool mebp_session_has_open_sequence(const mebp_session *session); /* whether its end can follow */
mebp_code mebp_session_end_sequence(mebp_session *session, const mebp_coefficients *coefficients, bool pending,
                                    mebp_error *error);
mebp_code mebp_session_settle(mebp_session *session, double factor, mebp_error *error);
mebp_code mebp_session_apply(mebp_session *session, mebp_step_result *result, mebp_error *error);
mebp_code mebp_session_discard(mebp_session *session, mebp_error *error);
/* Of a session with options.value_adapter: what follows runs with the value head's own adapter, reads it, writes it and
 * trains it, until `uses` is false; a session begins with the policy's. Both have the bundle's shapes and begin alike;
 * the head that counts is the value adapter's. A step applies each once, in any order: mebp_session_steps counts the
 * policy's, and until both have, saving gives MEBP_POISONED. mebp_session_save_adapter and save_state have both,
 * whichever is in use. An open sequence ends; refused where gradients of sequences wait to be applied. */
mebp_code mebp_session_use_value_adapter(mebp_session *session, bool uses, mebp_error *error);

#ifdef __cplusplus
}
#endif

#endif
