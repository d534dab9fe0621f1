// SPDX-License-Identifier: Apache-2.0
//
// Terms: a pass times every call once, so that a slow moment of a shared machine meets different calls in each pass; a
// call's time is the median of its passes.
// 1. Time the kernels on one thread, then on as many as were asked for.
// 2. Time what a step does beside its kernels: the optimizer's updates, and the file that is spilled to.
// 3. Fit the rates of the terms to all calls of one name.
#include "runtime/calibrate/calibration.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "format/machine.h"
#include "runtime/backends/cpu/choice.h"
#include "runtime/calibrate/fit.h"
#include "runtime/calibrate/timer.h"
#include "runtime/core/spill_file.h"
#include "runtime/optim/direction.h"
#include "runtime/optim/optimizer.h"
#include "runtime/platform/platform.h"

namespace mebp {

using format::Rates;

namespace {

constexpr size_t passes = 5;
using Time = std::chrono::steady_clock::time_point;

Time now() { return std::chrono::steady_clock::now(); }

double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Nanoseconds for an element of an adapter: its part of the norm, and the update. Tensor after tensor, as in a step.
double timeUpdate(Update update, bool quick) {
  constexpr uint64_t count = 16384;
  uint64_t tensors = quick ? 4 : 256;
  std::vector<float> gradient(count, 1e-3f), values(3 * tensors * count);
  mebp_session_options options;
  mebp_session_options_init(&options);
  double norm = 0;
  std::vector<double> times;
  for (size_t pass = 0; pass < passes; ++pass) {
    Time begin = now();
    for (uint64_t i = 0; i < tensors; ++i) {
      float *parameters = values.data() + 3 * i * count;
      float *state[format::maximumStateArrays] = {parameters + count, parameters + 2 * count};
      norm += squareOf(gradient.data(), count);
      update(optionsOf(options), pass + 1, parameters, gradient.data(), state, count);
    }
    times.push_back(nanosecondsSince(begin) / static_cast<double>(tensors * count));
  }
  return norm > 0 ? medianOf(times) : 0;
}

// The same of MeZO, which walks along its direction three times in a step.
double timeDirection(bool quick) {
  std::vector<float> values(quick ? 1 << 12 : 1 << 18);
  std::vector<double> times;
  for (size_t pass = 0; pass < passes; ++pass) {
    Time begin = now();
    for (uint64_t walk = 0; walk < 3; ++walk)
      addDirection(values.data(), values.size(), 1, walk, 1e-3f);
    times.push_back(nanosecondsSince(begin) / static_cast<double>(values.size()));
  }
  return medianOf(times);
}

// Nanoseconds for a byte that is written and read again; 0 where no file can be.
double timeSpill(bool quick) {
  constexpr uint64_t piece = 1 << 20;
  uint64_t bytes = (quick ? 1 : 32) * piece;
  std::vector<unsigned char> data(piece, 1);
  SpillFile file;
  if (!file.open(SpillFile::defaultFolder(), bytes, bytes).ok())
    return 0;
  Time begin = now();
  for (uint64_t offset = 0; offset < bytes; offset += piece) {
    if (!file.write(offset, data.data(), piece).ok())
      return 0;
    file.writeBack(offset, piece);
  }
  for (uint64_t offset = bytes; offset > 0; offset -= piece) {
    if (!file.prepareRead(offset - piece, piece).ok())
      return 0;
    file.drop(offset - piece, piece);
  }
  return nanosecondsSince(begin) / static_cast<double>(bytes);
}

std::string today() {
  std::time_t seconds = std::time(nullptr);
  std::tm date = {};
  char text[16] = "";
  if (::gmtime_r(&seconds, &date))
    std::strftime(text, sizeof(text), "%Y-%m-%d", &date);
  return text;
}

} // namespace

Status Calibration::measure(const mebp_calibration_options &options) {
  if (const std::string &refusal = cpu::instructionSetRefusal(); !refusal.empty())
    return failure(MEBP_UNSUPPORTED, "%s", refusal.c_str());
  uint32_t most = options.threads ? options.threads : platform::availableThreads();
  threads = most > 1 ? std::vector<uint32_t>{1, most} : std::vector<uint32_t>{1};
  Pools pools;
  std::vector<TimedCall> calls = listTimedCalls(pools, options.quick);
  size_t rounds = options.quick ? 1 : passes;
  for (uint32_t count : threads) {
    Timer timer(pools, count);
    if (!timer.hasThreads())
      return failure(MEBP_OUT_OF_MEMORY, "the system refuses %u threads; ask for fewer", count);
    std::vector<std::vector<double>> times(calls.size());
    for (size_t round = 0; round < rounds; ++round)
      for (size_t i = 0; i < calls.size(); ++i) {
        times[i].push_back(timer.time(calls[i]));
        if (options.goes_on && !options.goes_on(options.user))
          return failure(MEBP_INVALID_ARGUMENT, "calibration was interrupted; nothing was written");
      }
    std::map<std::string, std::vector<Sample>> samples;
    for (size_t i = 0; i < calls.size(); ++i)
      samples[calls[i].rate].push_back({calls[i].amounts, medianOf(times[i])});
    for (const auto &[name, ofName] : samples)
      rates[name].push_back(fitRates(ofName));
  }
  // One thread does these, however many there are.
  auto add = [&](const char *name, double nanoseconds) {
    if (nanoseconds > 0)
      rates[name].assign(threads.size(), Rates{0, 0, 0, nanoseconds});
  };
  for (const format::OptimizerTraits &traits : format::optimizers)
    add(traits.name, traits.forwardOnly
                         ? timeDirection(options.quick)
                         : timeUpdate(updateOf(static_cast<mebp_optimizer>(traits.number)), options.quick));
  add(format::spillRate, timeSpill(options.quick));
  return Status();
}

std::string Calibration::toJson() const {
  nlohmann::ordered_json json = {{"version", format::ratesVersion},
                                 {"processor", format::processorName()},
                                 {"kernels", cpu::nameOf(cpu::instructionSet())},
                                 {"date", today()},
                                 {"threads", threads},
                                 {"terms", format::termNames},
                                 {"nanoseconds", rates}};
  return json.dump(1);
}

} // namespace mebp
