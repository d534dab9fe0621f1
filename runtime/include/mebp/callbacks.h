/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session calls of its caller, by fields of mebp_session_options. mebp.h includes this, where it needs it.
 */
#ifndef MEBP_MEBP_H
#include "mebp/mebp.h"
#elif !defined(MEBP_CALLBACKS_H)
#define MEBP_CALLBACKS_H

/* Told of each gradient of a step as soon as it is complete, before it is applied or kept: `count` numbers of the
 * trainable, which it may change. If it sets *taken, the gradient stays where it is until any thread gives it back with
 * mebp_session_give_gradient, and is applied then; so it can be reduced over machines while the step goes on. It is
 * called on the thread of the step and may call nothing else of the session; what it gives but MEBP_OK ends the step as
 * a kernel that fails does. After a step that has failed nothing is out, and what was taken is not to be touched. */
typedef mebp_code (*mebp_on_gradient)(void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken);

/* Told of the gradient's norm before anything is applied, where gradients are kept (clip, accumulate,
 * return_gradients): `squares` are sums of squares, one for each of `count` tiles of the gradients in a fixed order,
 * which depends on the trainables' sizes alone. *sum is theirs; what it becomes is what is clipped by and given as the
 * norm. It is called as on_gradient is. */
typedef mebp_code (*mebp_on_norm)(void *user, const double *squares, uint64_t count, double *sum);

typedef enum mebp_direction MEBP_ANY_NUMBER { MEBP_FORWARD = 0, MEBP_BACKWARD = 1 } mebp_direction;
#define MEBP_NO_BLOCK UINT32_MAX

/* Asked where the weights of `block` are, before it or a head tied to it runs in that direction; `next` is the block
 * that runs after that one, or MEBP_NO_BLOCK. *weights becomes the address at which the block's region of weights.bin
 * (mebp_bundle_block_region) lies byte for byte, a multiple of 16384, where it stays until the block is free; left
 * NULL, the bundle's own file is read. With `weights` NULL it is told that the block is free again. It is called as
 * on_gradient is, and what has failed is not asked again: all blocks are free when a call returns. */
typedef mebp_code (*mebp_on_block)(void *user, uint32_t block, mebp_direction direction, uint32_t next,
                                   const void **weights);

/* With on_block: what it gave for `block` is read now, and may have been on its way until then. Returns when all bytes
 * are there. It is called as on_gradient is, once for each time that on_block was asked. */
typedef mebp_code (*mebp_on_block_ready)(void *user, uint32_t block);

/* Elements from `begin` to below `end` of a tensor, row by row. */
typedef struct mebp_range {
  uint64_t begin, end;
} mebp_range;

#endif /* MEBP_CALLBACKS_H */
