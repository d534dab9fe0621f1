// SPDX-License-Identifier: Apache-2.0
//
// Two sessions of one bundle that train on halves of a text and stay alike: each gradient is taken from both, averaged,
// and given back while their backwards go on. Between machines a reduction stands where the average is.
//
//   average_gradients NAME.mebp < ids.txt
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "mebp/mebp.h"

struct Half {
  mebp_session *session = nullptr;
  std::map<uint32_t, float *> taken; // by trainable, until the other half has it, too
};
static Half halves[2];
static std::mutex mutex;

static mebp_code onGradient(void *user, uint32_t trainable, float *gradient, uint64_t count, bool *taken) {
  Half &own = *static_cast<Half *>(user), &other = halves[&own == &halves[0]];
  *taken = true;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!other.taken.count(trainable))
    return own.taken[trainable] = gradient, MEBP_OK;
  float *theirs = other.taken[trainable];
  other.taken.erase(trainable);
  for (uint64_t i = 0; i < count; ++i)
    gradient[i] = theirs[i] = (gradient[i] + theirs[i]) / 2;
  mebp_session_give_gradient(other.session, trainable, nullptr);
  return mebp_session_give_gradient(own.session, trainable, nullptr);
}

static mebp_error error;
static void check(mebp_code code) {
  if (code != MEBP_OK)
    std::exit((std::fprintf(stderr, "%s\n", error.message), 2));
}

static void train(int number, const std::vector<int32_t> &ids) {
  const auto length = static_cast<uint32_t>(ids.size() / 2);
  const int32_t *own = ids.data() + number * length;
  mebp_step_result result;
  mebp_step_result_init(&result);
  for (int step = 1; step <= 10; ++step)
    if (mebp_session_step(halves[number].session, own, own, 1, length, &result, nullptr) == MEBP_OK)
      std::printf("half %d, step %d: loss %.4f\n", number, step, result.loss);
}

int main(int argc, char **argv) {
  std::vector<int32_t> ids;
  for (int32_t id; std::scanf("%d", &id) == 1;)
    ids.push_back(id);
  if (argc != 2 || ids.size() < 4)
    return std::fputs("usage: average_gradients NAME.mebp < ids.txt\n", stderr), 2;
  mebp_bundle *bundle = nullptr;
  check(mebp_bundle_open(argv[1], &bundle, &error));
  for (Half &half : halves) {
    mebp_session_options options;
    mebp_session_options_init(&options);
    options.on_gradient = onGradient;
    options.gradient_user = &half;
    options.gradients_out = 1; // the average of a block's is made while the next block's backward runs
    check(mebp_session_create(bundle, &options, &half.session, &error));
  }
  std::thread second(train, 1, std::cref(ids));
  train(0, ids);
  second.join();
  for (Half &half : halves)
    mebp_session_destroy(half.session);
  mebp_bundle_close(bundle);
}
