/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session can be told, by names: for programs that hand on what their users write, and for those that ask.
 * mebp.h includes this.
 */
#ifndef MEBP_SESSION_OPTIONS_H
#define MEBP_SESSION_OPTIONS_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the option `name` of `options`, which mebp_session_options_init has made. `name` is what command lines call it
 * ("lr", "eps", "galore-refresh"), or its field ("learning_rate"); _ stands for -, too. `value` is text as on a command
 * line, with a point in every locale: "1e-8", "true", "64MiB", one of the choices ("svd"), or of several fields that
 * are set together a number each ("betas": "0.9,0.99"). A path stays the caller's, until mebp_session_create returns. A
 * value out of range is refused, and 0 where it does not mean "none"; a name that this library does not know is
 * MEBP_UNSUPPORTED. Whether the options go together, mebp_session_create says. */
mebp_code mebp_session_options_set(mebp_session_options *options, const char *name, const char *value,
                                   mebp_error *error);

typedef enum mebp_option_kind MEBP_ANY_NUMBER {
  MEBP_OPTION_FLAG = 0,   /* true or false */
  MEBP_OPTION_COUNT = 1,  /* a whole number */
  MEBP_OPTION_NUMBER = 2, /* any */
  MEBP_OPTION_SIZE = 3,   /* bytes, or text such as 64MiB */
  MEBP_OPTION_PATH = 4,
  MEBP_OPTION_CHOICE = 5 /* a name */
} mebp_option_kind;

/* An option of every session. mebp_optimizer_option_info has those that only some optimizers have. */
typedef struct mebp_session_option_info {
  size_t size MEBP_SIZE_OF(mebp_session_option_info);
  const char *name;   /* its field in mebp_session_options */
  const char *called; /* as on a command line */
  mebp_option_kind kind;
  const char *help;     /* one line */
  const char *standard; /* what holds where it is not given; NULL: the help says it, or nothing does */
  const char *written;  /* what a command line calls its value; "" of a flag */
  const char *run_name; /* what mebp-run calls it; NULL: it has none */
  bool is_of_packages;  /* Python, Kotlin and Swift have it; else it is of use beside C's callbacks and streams */
} mebp_session_option_info;
static inline void mebp_session_option_info_init(mebp_session_option_info *info) {
  memset((void *)info, 0, sizeof(*info));
  info->size = sizeof(*info);
}
uint32_t mebp_session_option_count(void);
/* The option of that number, below the count. What it points to lives as long as the library. */
mebp_code mebp_session_option_get_info(uint32_t index, mebp_session_option_info *out, mebp_error *error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MEBP_SESSION_OPTIONS_H */
