// SPDX-License-Identifier: Apache-2.0
//
// Continues a prompt with the likeliest tokens, ids in and ids out: what a phone would run, with its own tokenizer
// around it. The bundle is compiled with --generate-len.
//
//   generate NAME.mebp COUNT [ADAPTER] < ids.txt
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mebp/mebp.h"

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4)
    return std::fputs("usage: generate NAME.mebp COUNT [ADAPTER] < ids.txt\n", stderr), 2;
  std::vector<int32_t> ids;
  for (int32_t id; std::scanf("%d", &id) == 1;)
    ids.push_back(id);

  mebp_error error = {};
  mebp_bundle *bundle = nullptr;
  mebp_session *session = nullptr;
  mebp_generation *generation = nullptr;
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.generate_only = true; // room for the adapter, and nothing that training needs
  mebp_code code = mebp_bundle_open(argv[1], &bundle, &error);
  if (code == MEBP_OK)
    code = mebp_bundle_get_info(bundle, &info, &error);
  if (code == MEBP_OK)
    code = mebp_session_create(bundle, &options, &session, &error);
  if (code == MEBP_OK && argc == 4)
    code = mebp_session_load_adapter(session, argv[3], &error);
  if (code == MEBP_OK)
    code = mebp_generation_create(session, &generation, &error);

  std::vector<float> logits(info.vocabulary);
  for (int left = std::atoi(argv[2]); code == MEBP_OK && left > 0; --left) {
    code = mebp_generation_append(generation, ids.data(), 1, static_cast<uint32_t>(ids.size()), logits.data(), &error);
    if (code != MEBP_OK)
      break;
    ids = {static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())};
    std::printf("%d\n", ids[0]);
  }
  if (code != MEBP_OK)
    std::fprintf(stderr, "generate: %s\n", error.message);
  mebp_generation_destroy(generation);
  mebp_session_destroy(session);
  mebp_bundle_close(bundle);
  return code == MEBP_OK ? 0 : 2;
}
