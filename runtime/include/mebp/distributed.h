/* SPDX-License-Identifier: Apache-2.0
 *
 * What several sessions, mostly on several machines, need to share one model's training: beside on_gradient, on_norm,
 * shared_sums, owned_elements and on_block of mebp_session_options. mebp.h includes this.
 */
#ifndef MEBP_DISTRIBUTED_H
#define MEBP_DISTRIBUTED_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Deals the trainables among `count` sessions, and marks in owned[info.trainables] those of the index-th. The parts
 * have about as many bytes of gradients, and depend on the bundle alone. */
mebp_code mebp_bundle_own_part(const mebp_bundle *bundle, uint32_t index, uint32_t count, bool *owned,
                               mebp_error *error);

/* The same by elements, for owned_elements[info.trainables] of sessions with this optimizer: trainables that are large
 * enough are cut, such that parts have as many bytes, but for one tile of a trainable. Those that an optimizer does not
 * update element by element, and those in int8, are dealt whole. */
mebp_code mebp_bundle_own_elements(const mebp_bundle *bundle, mebp_optimizer optimizer, uint32_t index, uint32_t count,
                                   mebp_range *owned, mebp_error *error);
/* Elements of a tile of on_norm's, of a gradient of so many; its last tile may have fewer. */
uint64_t mebp_norm_tile(uint64_t elements);

/* Like mebp_session_save_state, of a session that owns a part: writes the state of one that owns all, which each part's
 * session loads as well. What others own is read from their states in the `count` folders `parts`, saved at the same
 * step. MEBP_INCOMPATIBLE where something is lacking. */
mebp_code mebp_session_join_states(const mebp_session *session, const char *folder, const char *const *parts,
                                   uint32_t count, const void *user, uint64_t user_bytes, mebp_error *error);

/* Gives back what on_gradient has taken, with what it is to be now. For any thread, while the step runs, which waits
 * for it. */
mebp_code mebp_session_give_gradient(mebp_session *session, uint32_t trainable, mebp_error *error);

/* What the micro-batches of one call are a part of: a step that several sessions share. */
typedef struct mebp_step_part {
  size_t size MEBP_SIZE_OF(mebp_step_part);
  uint64_t labels;    /* that count, of all micro-batches of the step: the loss and gradients are divided by it */
  uint32_t batches;   /* of the step, of all sessions */
  uint64_t first_row; /* rows of micro-batches before these, by which dropout chooses */
} mebp_step_part;
static inline void mebp_step_part_init(mebp_step_part *part) {
  memset((void *)part, 0, sizeof(*part));
  part->size = sizeof(*part);
}

/* What sessions that share a step sum over all, beside gradients or instead of them, before anything is changed. Both
 * are called as on_gradient is, and each is NULL where nobody is to be told. */
typedef struct mebp_shared_sums {
  /* With MeZO alone, told twice in a step: of the loss over this session's micro-batches at one of the two points that
   * are compared. *loss becomes that over those of all sessions. */
  mebp_code (*on_loss)(void *user, double *loss);
  /* With accumulate, where gradients are projected: told of what the subspace of a trainable is found from, `count`
   * sums over this session's micro-batches of products with its gradient. They become those over all sessions. Sessions
   * that have done the same steps are told of the same sums, in the same order. */
  mebp_code (*on_subspace)(void *user, uint32_t trainable, float *sums, uint64_t count);
  void *user;
} mebp_shared_sums;

/* The labels of these micro-batches that count. Runs nothing. */
mebp_code mebp_session_count_labels(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                    uint32_t count, uint64_t *labels, mebp_error *error);

/* One session's part of such a step, in which on_gradient sums gradients over the sessions before they are applied;
 * result->loss and tokens are of the part. With options.tree_batches gradients are summed in a binary tree over the
 * micro-batches' numbers: neighbours meet first, then pairs of them, and what is left at the end, the latest first. So
 * sessions that have 2^k micro-batches each, from a multiple of 2^k on, give sums that are nodes of the tree, and that
 * are the same bits wherever they are made. So are the sums that on_subspace is told of; and the losses that on_loss
 * is, whatever the options. A part that is not the whole is refused where MeZO has no on_loss, or GaLore no
 * on_subspace. */
mebp_code mebp_session_step_part(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                 uint32_t count, const mebp_step_part *part, mebp_step_result *result,
                                 mebp_error *error);

/* The same tree over a step of sequences (mebp/sequences.h), in a session with options.tree_batches: those that follow
 * are of the micro-batch `index` of the `count` that this session has in the step. They are begun from 0 on, one after
 * the other, and all of them before the update; one without sequences adds nothing. Within one, sequences are summed in
 * their order, and the first may have a factor that comes later. Score by another adapter before the step's first. */
mebp_code mebp_session_begin_batch(mebp_session *session, uint32_t index, uint32_t count, mebp_error *error);

/* Where the values of the trainable `name` lie, to be read and written between two calls: as the bundle stores them,
 * f32 or bf16, or int8 with f16 scales and minima of its groups behind it, each at the next multiple of 64 bytes. They
 * stay there until the session is paused or destroyed, or takes its other adapter. MEBP_UNSUPPORTED where they are in a
 * file (state_in_file). */
mebp_code mebp_session_trainable_values(mebp_session *session, const char *name, void **values, uint64_t *bytes,
                                        mebp_error *error);

/* Like mebp_bundle_open, where weights.bin may be missing, or end early. A session over such a bundle needs on_block,
 * and generates no text. */
mebp_code mebp_bundle_open_partial(const char *path, mebp_bundle **out, mebp_error *error);
/* The bytes of weights.bin that are a block's own; none of a block without weights, or where they are all another
 * block's, as a tied head's. Blocks are the embedding, the layers and the head: info.blocks. */
mebp_code mebp_bundle_block_region(const mebp_bundle *bundle, uint32_t block, uint64_t *offset, uint64_t *bytes,
                                   mebp_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_DISTRIBUTED_H */
