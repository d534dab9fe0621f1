/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a device's kernels are, for the compiler's predictions. mebp.h includes this.
 */
#ifndef MEBP_CALIBRATION_H
#define MEBP_CALIBRATION_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times a device's kernels here, for the compiler's cost model. On a machine that does nothing else, or the plans
 * that are made with it expect the same company. */
typedef struct mebp_calibration mebp_calibration;

typedef struct mebp_calibration_options {
  size_t size MEBP_SIZE_OF(mebp_calibration_options);
  uint32_t threads;            /* the CPU's kernels are timed on one and on so many; 0: as many as the process may run
                                * on. Give 0 for any other device */
  bool quick;                  /* few and small calls, to try the way: what comes out predicts little */
  bool (*goes_on)(void *user); /* asked after each call that was timed; false ends it. NULL: it goes on */
  void *user;
  mebp_backend device; /* MEBP_CPU */
} mebp_calibration_options;
static inline void mebp_calibration_options_init(mebp_calibration_options *options) {
  memset((void *)options, 0, sizeof(*options));
  options->size = sizeof(*options);
}

/* Takes about twenty seconds, on a slow device some minutes. A device is tested first where it has not been, and is
 * refused where it is not there or computes wrong; calls of kernels that it lacks are left out. */
mebp_code mebp_calibration_create(const mebp_calibration_options *options, mebp_calibration **out, mebp_error *error);
/* The file that `mebpc --rates` reads. */
const char *mebp_calibration_json(const mebp_calibration *calibration);
void mebp_calibration_destroy(mebp_calibration *calibration); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
