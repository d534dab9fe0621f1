// SPDX-License-Identifier: Apache-2.0
//
// Loss and gradients of one batch, for tests that look at them elsewhere: a process chooses its kernels once, and this
// one runs where Python does not.
//
//   session_gradients BUNDLE ADAPTER BATCH IDS OUT
//
// IDS has int32 [batch, sequence], which are the labels, too. OUT gets f32: the loss, then every gradient in the order
// of the trainables. Prints which kernels ran.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "support/handles.h"

using namespace mebp::test;

int main(int argc, char **argv) {
  if (argc != 6)
    return 2;
  OpenBundle bundle(argv[1]);
  mebp_session *session = nullptr;
  mebp_session_options options = defaultOptions();
  mebp_error error = bundle.error;
  auto failed = [&](mebp_code code) { return code != MEBP_OK && std::fprintf(stderr, "%s\n", error.message); };
  if (failed(bundle.code) || failed(mebp_session_create(bundle.handle, &options, &session, &error)) ||
      failed(mebp_session_load_adapter(session, argv[2], &error)))
    return 2;
  const std::string ids = readWhole(argv[4]);
  const auto batch = static_cast<uint32_t>(std::atoi(argv[3]));
  const auto sequence = static_cast<uint32_t>(ids.size() / sizeof(int32_t)) / batch;
  const auto *tokens = reinterpret_cast<const int32_t *>(ids.data());
  double loss = 0;
  if (failed(mebp_session_gradients(session, tokens, tokens, batch, sequence, &loss, &error)))
    return 2;
  std::vector<float> numbers = {static_cast<float>(loss)};
  for (const std::vector<float> &gradient : gradientsOf(bundle.handle, session))
    numbers.insert(numbers.end(), gradient.begin(), gradient.end());
  writeWhole(argv[5], {reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float)});
  std::printf("%s\n", mebp_session_kernels(session));
  mebp_session_destroy(session);
  return 0;
}
