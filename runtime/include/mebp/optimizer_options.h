/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimizer's own options, which mebp_session_options_set (session_options.h) sets by their names, and a learning
 * rate of embeddings' own. mebp.h includes this.
 */
#ifndef MEBP_OPTIMIZER_OPTIONS_H
#define MEBP_OPTIMIZER_OPTIONS_H

#include "mebp/mebp.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* As mebp_session_set_learning_rate, of rows of new tokens, and of an embedding or head that is trained whole; until it
 * is set, the rate of all. No state has it. Refused where no such thing is trained, and with MeZO. */
mebp_code mebp_session_set_embedding_learning_rate(mebp_session *session, double learning_rate, mebp_error *error);

#ifdef __cplusplus
}
#endif

#endif
