// SPDX-License-Identifier: Apache-2.0
//
// mebpc: an ONNX model in, a bundle out.
#include "options.h"

#include "format/optimizers.h"
#include "mebp/mebp.h"

namespace {

// What a process has when it runs as planned, as the runtime lays it out: it trains, or it only generates text.
uint64_t peakOf(const mebp_bundle *bundle, const mebp::format::Plan &plan, const mebp::Training &training,
                bool generates) {
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.optimizer = static_cast<mebp_optimizer>(mebp::format::findOptimizer(plan.optimizer())->number);
  mebp_device_find(plan.device().c_str(), &options.backend, nullptr);
  options.momentum = plan.momentum();
  options.threads = plan.threads();
  options.generate_only = generates;
  options.accumulate = training.sums && !generates;
  options.value_adapter = training.hasValueAdapter && !generates;
  options.clip = training.keeps && !generates ? 1 : 0;
  const uint64_t peak = mebp_session_peak_bytes(bundle, &options);
  if (!generates)
    return peak;
  mebp_bundle_info info;
  mebp_bundle_info_init(&info);
  mebp_bundle_get_info(bundle, &info, nullptr);
  const uint64_t logits = sizeof(float) * info.max_batch * info.vocabulary; // the caller's
  return peak + mebp_generation_memory_bytes(bundle, &options) + logits;
}

// Of a plan for a device that is not here, nothing can be laid out.
std::string comparePeak(const char *of, uint64_t planned, uint64_t laidOut) {
  return planned == laidOut || laidOut == 0 ? ""
                                            : std::string("the plan of ") + of + " has " + std::to_string(planned) +
                                                  " bytes where the runtime lays out " + std::to_string(laidOut);
}

// Of training, of text that it writes.
uint64_t bytesBeside(const mebp::format::Plan &plan) {
  for (const mebp::format::Buffer &buffer : plan.buffers())
    if (buffer.name() == mebp::writingBuffer)
      return buffer.bytes();
  return 0;
}

// The runtime's own reader says whether it opens what was written, and has the last word on what a plan needs.
std::string checkBundle(const std::string &folder, const mebp::format::Plan &plan, const mebp::Training &training) {
  mebp_error error;
  mebp_bundle *bundle = nullptr;
  std::string wrong;
  if (mebp_bundle_open(folder.c_str(), &bundle, &error) != MEBP_OK)
    wrong = error.message;
  else if (plan.generation_peak_bytes())
    wrong = comparePeak("generation", plan.generation_peak_bytes(), peakOf(bundle, plan, training, true));
  if (wrong.empty())
    wrong = comparePeak("training", plan.peak_bytes() - bytesBeside(plan), peakOf(bundle, plan, training, false));
  mebp_bundle_close(bundle);
  return wrong;
}

} // namespace

int main(int argc, char **argv) {
  mebp::Compilation compilation;
  if (std::optional<int> status = mebp::parseCommandLine(argc, argv, compilation))
    return *status;
  compilation.checkBundle = [&](const std::string &folder, const mebp::format::Plan &plan) {
    return checkBundle(folder, plan, compilation.options.training);
  };
  return mebp::compile(compilation);
}
