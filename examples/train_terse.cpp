// SPDX-License-Identifier: Apache-2.0
//
// Fine-tunes a bundle on token ids from standard input, as short as it can be; train_explained.cpp says why.
//
//   train_terse NAME.mebp ADAPTER < ids.txt
#include <cstdio>
#include <vector>

#include "mebp/mebp.h"

int main(int argc, char **argv) {
  if (argc != 3)
    return std::fputs("usage: train_terse NAME.mebp ADAPTER < ids.txt\n", stderr), 2;
  std::vector<int32_t> ids;
  for (int32_t id; std::scanf("%d", &id) == 1;)
    ids.push_back(id);

  mebp_error error = {};
  mebp_bundle *bundle = nullptr;
  mebp_session *session = nullptr;
  mebp_session_options options;
  mebp_session_options_init(&options);
  mebp_code code = mebp_bundle_open(argv[1], &bundle, &error);
  if (code == MEBP_OK)
    code = mebp_session_create(bundle, &options, &session, &error);
  for (int step = 1; code == MEBP_OK && step <= 10; ++step) {
    mebp_step_result result;
    code = mebp_session_step(session, ids.data(), ids.data(), 1, ids.size(), &result, &error);
    if (code == MEBP_OK)
      std::printf("step %d  loss %.4f\n", step, result.loss);
  }
  if (code == MEBP_OK)
    code = mebp_session_save_adapter(session, argv[2], &error);
  if (code != MEBP_OK)
    std::fprintf(stderr, "train_terse: %s\n", error.message);
  mebp_session_destroy(session);
  mebp_bundle_close(bundle);
  return code == MEBP_OK ? 0 : 2;
}
