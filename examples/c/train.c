/* SPDX-License-Identifier: Apache-2.0
 *
 * train_terse.cpp in C, against an installed library; a host's log gets what the session says.
 *
 *   train NAME.mebp ADAPTER < ids.txt
 */
#include <inttypes.h>
#include <stdio.h>

#include "mebp/mebp.h"

enum { MOST_IDS = 4096, STEPS = 10 };

static void write_log(void *user, mebp_log_level level, const char *line) {
  fprintf(stderr, "%s: %s%s\n", (const char *)user, level == MEBP_LOG_WARNING ? "warning: " : "", line);
}

static mebp_code train(mebp_session *session, const int32_t *ids, uint32_t count, mebp_error *error) {
  for (int step = 1; step <= STEPS; ++step) {
    mebp_step_result result;
    mebp_step_result_init(&result);
    mebp_code code = mebp_session_step(session, ids, ids, 1, count, &result, error);
    if (code != MEBP_OK)
      return code;
    printf("step %d  loss %.4f\n", step, result.loss);
  }
  return MEBP_OK;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fputs("usage: train NAME.mebp ADAPTER < ids.txt\n", stderr), 2;
  static int32_t ids[MOST_IDS];
  uint32_t count = 0;
  while (count < MOST_IDS && scanf("%" SCNd32, &ids[count]) == 1)
    ++count;

  char name[] = "train";
  mebp_error error = {MEBP_OK, ""};
  mebp_bundle *bundle = NULL;
  mebp_session *session = NULL;
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.log = write_log;
  options.log_user = name;

  printf("mebp %s\n", mebp_version());
  mebp_code code = mebp_bundle_open(argv[1], &bundle, &error);
  if (code == MEBP_OK)
    code = mebp_session_create(bundle, &options, &session, &error);
  if (code == MEBP_OK)
    code = train(session, ids, count, &error);
  if (code == MEBP_OK)
    code = mebp_session_save_adapter(session, argv[2], &error);
  if (code != MEBP_OK)
    fprintf(stderr, "train: %s\n", error.message);
  mebp_session_destroy(session);
  mebp_bundle_close(bundle);
  return code == MEBP_OK ? 0 : 2;
}
