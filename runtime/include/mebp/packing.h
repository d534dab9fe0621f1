/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over rows that several samples share. mebp.h includes this.
 */
#ifndef MEBP_PACKING_H
#define MEBP_PACKING_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With `starts` [batch * sequence], several samples stand one after another in a row: of each token it has the position
 * in its row where its sample starts. A token attends to its own sample alone, positions begin at 0 with each, and
 * nothing predicts a sample's first token, so that loss and gradient are those of the samples in rows of their own.
 * NULL: each row is one sample, as in mebp_session_loss, mebp_session_gradients and mebp_session_step_batches, which
 * these do otherwise. Needs a bundle that was compiled with --packing (info.packs): another one gives MEBP_UNSUPPORTED,
 * and starts that are neither their own position nor the start of the token before MEBP_INVALID_ARGUMENT. Padding at a
 * row's end may be a sample of its own, or belong to the last one. */
mebp_code mebp_session_packed_loss(mebp_session *session, const mebp_batch *batch, const int32_t *starts, double *loss,
                                   mebp_error *error);
mebp_code mebp_session_packed_gradients(mebp_session *session, const mebp_batch *batch, const int32_t *starts,
                                        double *loss, mebp_error *error);
/* starts[count], one for each of the batches; it, or any of them, may be NULL. */
mebp_code mebp_session_packed_step(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                   uint32_t count, mebp_step_result *result, mebp_error *error);

/* As mebp_session_logits; the labels are not read. */
mebp_code mebp_session_packed_logits(mebp_session *session, const mebp_batch *batch, const int32_t *starts,
                                     uint32_t first, uint32_t count, float *out, mebp_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_PACKING_H */
