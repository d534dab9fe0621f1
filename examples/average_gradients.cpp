// SPDX-License-Identifier: Apache-2.0
//
// Two sessions of one bundle that train on halves of a text and stay alike: each gradient is taken from both, averaged,
// and given back while their backwards go on. Between machines a reduction stands where the average is.
//
//   average_gradients NAME.mebp < ids.txt
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "mebp/mebp.h"

struct Half {
  mebp_session *session = nullptr;
  std::vector<float *> taken; // by trainable; null: not there yet
  struct Both *both = nullptr;
};
struct Both {
  Half halves[2];
  std::mutex mutex;
};

static mebp_code onGradient(void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
  Half &own = *static_cast<Half *>(user);
  Half &other = own.both->halves[own.session == own.both->halves[0].session];
  *taken = true;
  const std::lock_guard<std::mutex> lock(own.both->mutex);
  float *theirs = other.taken[trainable];
  if (!theirs) { // who comes second averages
    own.taken[trainable] = gradient;
    return MEBP_OK;
  }
  for (uint64_t i = 0; i < count; ++i)
    gradient[i] = theirs[i] = (gradient[i] + theirs[i]) / 2;
  other.taken[trainable] = nullptr;
  mebp_session_give_gradient(other.session, trainable, nullptr);
  return mebp_session_give_gradient(own.session, trainable, nullptr);
}

int main(int argc, char **argv) {
  std::vector<int32_t> ids;
  for (int32_t id; std::scanf("%d", &id) == 1;)
    ids.push_back(id);
  const auto length = static_cast<uint32_t>(ids.size() / 2);
  mebp_error error = {};
  mebp_bundle *bundle = nullptr;
  if (argc != 2 || length < 2)
    return std::fputs("usage: average_gradients NAME.mebp < ids.txt\n", stderr), 2;
  if (mebp_bundle_open(argv[1], &bundle, &error) != MEBP_OK)
    return std::fprintf(stderr, "%s\n", error.message), 2;
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_bundle_get_info(bundle, &info, nullptr);
  Both both;
  for (Half &half : both.halves) {
    mebp_session_options options;
    mebp_session_options_init(&options);
    options.on_gradient = onGradient;
    options.gradient_user = &half;
    options.gradients_out = 1; // the average of a block's is made while the next block's backward runs
    half.both = &both;
    half.taken.assign(info.trainables, nullptr);
    if (mebp_session_create(bundle, &options, &half.session, &error) != MEBP_OK)
      return std::fprintf(stderr, "%s\n", error.message), 2;
  }
  auto train = [&](int number) {
    const int32_t *own = ids.data() + number * length;
    mebp_step_result result;
    mebp_step_result_init(&result);
    for (int step = 1; step <= 10; ++step)
      if (mebp_session_step(both.halves[number].session, own, own, 1, length, &result, nullptr) == MEBP_OK)
        std::printf("half %d, step %d: loss %.4f\n", number, step, result.loss);
  };
  std::thread second(train, 1);
  train(0);
  second.join();
  for (Half &half : both.halves)
    mebp_session_destroy(half.session);
  mebp_bundle_close(bundle);
}
