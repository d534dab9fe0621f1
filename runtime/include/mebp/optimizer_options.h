/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimizer's own options by their names, for programs that hand on what their users write. mebp.h includes this.
 */
#ifndef MEBP_OPTIMIZER_OPTIONS_H
#define MEBP_OPTIMIZER_OPTIONS_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the option `name` of `options`, which mebp_session_options_init has made. `name` is what command lines call it
 * ("eps", "galore-refresh"), or its field ("epsilon"); _ stands for -, too. `value` is text as on a command line, with
 * a point in every locale: "1e-8", one of the choices ("svd"), or of several fields that are set together a number each
 * ("betas": "0.9,0.99"). A value out of range is refused, and 0 where it does not mean "none"; a name that this library
 * does not know is MEBP_UNSUPPORTED. Whether the optimizer takes the option, mebp_session_create says. */
mebp_code mebp_session_options_set(mebp_session_options *options, const char *name, const char *value,
                                   mebp_error *error);

typedef struct mebp_optimizer_option_info {
  size_t size MEBP_SIZE_OF(mebp_optimizer_option_info);
  const char *name;           /* as on a command line */
  uint32_t numbers;           /* that its value has, with commas between them */
  bool is_whole;              /* each is a whole number */
  const char *const *choices; /* names that its value may be, then NULL; NULL: it is of numbers */
  const char *written;        /* what help calls its value: "X,Y" */
  const char *help;           /* who takes it, what it is, and what holds where it is not given: one line */
} mebp_optimizer_option_info;
static inline void mebp_optimizer_option_info_init(mebp_optimizer_option_info *info) {
  memset((void *)info, 0, sizeof(*info));
  info->size = sizeof(*info);
}
/* How many options there are that only some optimizers have. */
uint32_t mebp_optimizer_option_count(void);
/* The option of that number, below the count. What it points to lives as long as the library. */
mebp_code mebp_optimizer_option_get_info(uint32_t index, mebp_optimizer_option_info *out, mebp_error *error);

#ifdef __cplusplus
}
#endif

#endif
