// SPDX-License-Identifier: Apache-2.0
//
// The same as train_terse.cpp with every call explained: what to read first to embed the runtime in a program.
//
//   train_explained NAME.mebp ADAPTER < ids.txt
//
// The ids are numbers between blanks. From text they are made by the bundle's own tokenizer; examples/README.md shows
// how. All of the API is in mebp.h, plain C: no exceptions to catch, no global state, no threads that outlive a call's
// session.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mebp/mebp.h"

// Every function that can fail returns a code. Where an error is passed along it also gets one line for the user, which
// names what is wrong and says what to do. A program that goes on after an error decides by the code; this one ends.
static void check(mebp_code code, const mebp_error &error) {
  if (code == MEBP_OK)
    return;
  std::fprintf(stderr, "train_explained: %s\n", error.message);
  std::exit(2);
}

// The plan stands in the bundle, so what training will cost is known before a single byte is mapped for the model.
static void showPlan(const mebp_bundle *bundle) {
  mebp_error error;
  mebp_bundle_info info;                                     // in C, mebp_bundle_info_init(&info) comes next
  check(mebp_bundle_get_info(bundle, &info, &error), error); // strings in it live as long as the bundle
  std::printf("%s: %u blocks, LoRA of rank %u, up to %u x %u tokens in a step\n", info.name, info.blocks,
              info.lora_rank, info.max_batch, info.max_sequence);
  // Weights are mapped read-only: the system can drop their pages and read them again, so they stand beside the peak.
  std::printf("planned peak %.1f MB, of it the runtime itself %.1f MB; mapped weights %.1f MB\n",
              static_cast<double>(info.peak_bytes) / 1e6, static_cast<double>(info.process_bytes) / 1e6,
              static_cast<double>(info.weights_bytes) / 1e6);
}

// Gradients, for a program that has its own optimizer or sums them over machines. This one names the largest.
static void showGradients(mebp_bundle *bundle, mebp_session *session, const std::vector<int32_t> &ids) {
  mebp_error error;
  mebp_bundle_info info;
  check(mebp_bundle_get_info(bundle, &info, &error), error);
  double loss = 0;
  // Nothing is updated by this call. It is allowed because options.return_gradients made room for it.
  check(mebp_session_gradients(session, ids.data(), ids.data(), 1, static_cast<uint32_t>(ids.size()), &loss, &error),
        error);
  double largest = 0;
  mebp_tensor_info named = {};
  for (uint32_t index = 0; index < info.trainables; ++index) {
    mebp_tensor_info tensor; // its name is the tensor's key in PEFT's adapter_model.safetensors
    check(mebp_bundle_trainable_info(bundle, index, &tensor, &error), error);
    std::vector<float> gradient(tensor.rows * tensor.columns); // row-major
    check(mebp_session_read_gradient(session, index, gradient.data(), gradient.size(), &error), error);
    double squares = 0;
    for (float value : gradient)
      squares += static_cast<double>(value) * value;
    if (squares > largest) {
      largest = squares;
      named = tensor;
    }
  }
  std::printf("loss %.4f before training; the largest of %u gradients: %s, norm %.4g\n", loss, info.trainables,
              named.name, std::sqrt(largest));
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fputs("usage: train_explained NAME.mebp ADAPTER < ids.txt\n", stderr);
    return 2;
  }
  std::vector<int32_t> ids;
  for (int32_t id; std::scanf("%d", &id) == 1;)
    ids.push_back(id);

  // Opening checks the bundle from end to end: versions, checksums, every program's shapes and memory. What passes here
  // needs no more checks while it runs. The bundle must outlive its sessions.
  mebp_error error;
  mebp_bundle *bundle = nullptr;
  check(mebp_bundle_open(argv[1], &bundle, &error), error);
  showPlan(bundle);

  // Defaults first, then what differs: an option that a later version adds keeps its default in this program.
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.optimizer = MEBP_ADAMW;
  options.learning_rate = 1e-3;
  options.return_gradients = true; // costs the memory of the whole gradient; leave it out to train as planned
  // The results do not depend on the number of threads: sums are split by shapes, never by threads. 0 takes all.
  options.threads = 2;
  // The plan above is of the optimizer that mebpc was told, without gradients kept; this is the plan of these options.
  std::printf("with these options: %.1f MB\n", static_cast<double>(mebp_session_peak_bytes(bundle, &options)) / 1e6);

  // A session lives in one piece of memory. It allocates it, or takes the caller's: from a pool, locked, or on huge
  // pages. No step allocates anything, so the first step's memory is also the last one's.
  const uint64_t needed = mebp_session_memory_bytes(bundle, &options); // by these options, set before asking
  const size_t aligned = (needed + 63) / 64 * 64;                      // aligned_alloc takes multiples only
  options.memory = std::aligned_alloc(64, aligned);
  options.memory_bytes = aligned;
  if (!options.memory) {
    std::fprintf(stderr, "train_explained: no %.1f MB of memory\n", static_cast<double>(needed) / 1e6);
    return 2;
  }
  // Now the weights are mapped, and the adapter starts as PEFT starts it: A random by the bundle's seed, B zero.
  mebp_session *session = nullptr;
  check(mebp_session_create(bundle, &options, &session, &error), error);

  showGradients(bundle, session, ids);

  // A step: forward, backward, update. Labels are as in transformers: the same ids, shifted inside by one position, and
  // -100 where a token is read but not learned, as a chat's questions are. A sequence shorter than the compiled one
  // costs its own length.
  std::vector<int32_t> labels = ids;
  for (int step = 1; step <= 10; ++step) {
    mebp_step_result result;
    check(mebp_session_step(session, ids.data(), labels.data(), 1, static_cast<uint32_t>(ids.size()), &result, &error),
          error);
    // A schedule is the caller's: mebp_session_set_learning_rate before any step.
    std::printf("step %d  loss %.4f  gradient norm %.3f  %.3f s  peak %.1f MB\n", step, result.loss, result.grad_norm,
                result.seconds, static_cast<double>(result.peak_bytes) / 1e6);
  }

  // For PEFT: PeftModel.from_pretrained(model, ADAPTER). The folder is written whole or not at all. To go on training
  // later, bit for bit as if never stopped, keep mebp_session_save_state's folder instead.
  check(mebp_session_save_adapter(session, argv[2], &error), error);
  std::printf("adapter: %s\n", argv[2]);

  // In the opposite order of creation; the memory was the caller's and stays so.
  mebp_session_destroy(session);
  mebp_bundle_close(bundle);
  std::free(options.memory);
  return 0;
}
