/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices there are, and whether one computes what it should. mebp.h includes this.
 */
#ifndef MEBP_DEVICES_H
#define MEBP_DEVICES_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device, whether it is there or not. */
typedef struct mebp_device_info {
  size_t size MEBP_SIZE_OF(mebp_device_info);
  mebp_backend backend; /* for mebp_session_options */
  bool is_there;
  uint64_t memory_bytes; /* all of it; 0: not known */
  char name[16];         /* "cpu", "mlx" or "mlx-cpu" */
  char description[488]; /* what it is; or why it is not there, and how to get it: one line */
  char tested[488];      /* what its last self-test found, in one line; empty: none is known */
} mebp_device_info;
static inline void mebp_device_info_init(mebp_device_info *info) {
  memset((void *)info, 0, sizeof(*info));
  info->size = sizeof(*info);
}
/* How many devices this library knows. */
uint32_t mebp_device_count(void);
/* The device of that number, below mebp_device_count. It opens the library that the device needs. */
mebp_code mebp_device_get_info(uint32_t index, mebp_device_info *out, mebp_error *error);
/* The device of that name, there or not; MEBP_UNSUPPORTED for one that nobody knows. */
mebp_code mebp_device_find(const char *name, mebp_backend *out, mebp_error *error);

/* Compares each kernel of a device with the CPU's naive ones, in a second or two. The first session on a device that is
 * not the CPU does so by itself, and keeps what it found in the cache ($MEBP_CACHE, or ~/.cache/mebp) for the sessions
 * after it, until device, driver or library is another one. Where a kernel is wrong and the device has another way to
 * compute it, a session takes that way and logs a warning; else mebp_session_create refuses the device. */
typedef struct mebp_device_test mebp_device_test;
/* Tests that device now, whatever is in the cache. That it computes wrong is a result and no failure. */
mebp_code mebp_device_test_create(mebp_backend device, mebp_device_test **out, mebp_error *error);
/* What was found, as JSON: "kernels", with of each "calls", of these "in_bf16", and the largest relative errors "f32"
 * and "bf16"; "avoided", "wrong" and "missing", each a list of lines; "seconds". */
const char *mebp_device_test_json(const mebp_device_test *test);
void mebp_device_test_destroy(mebp_device_test *test); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
