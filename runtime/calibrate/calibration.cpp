// SPDX-License-Identifier: Apache-2.0
//
// Terms: a pass times every call once, so that a slow moment of a shared machine meets different calls in each pass; a
// call's time is the median of its passes.
// 1. Time the kernels on one thread, then on as many as were asked for. A device that is not the CPU has no threads to
//    choose: it is timed once.
// 2. Time what a step does beside its kernels: the optimizer's updates, those of large tensors on as many threads, and
//    the file that is spilled to.
// 3. Fit the rates of the terms to all calls of one name.
#include "runtime/calibrate/calibration.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "format/machine.h"
#include "platform/platform.h"
#include "runtime/backends/tested_device.h"
#include "runtime/calibrate/fit.h"
#include "runtime/calibrate/timer.h"
#include "runtime/core/spill_file.h"
#include "runtime/exec/kernel_table.h"
#include "runtime/optim/direction.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/session_options.h"

namespace mebp {

using format::Rates;

namespace {

constexpr size_t passes = 5;
constexpr uint64_t lateStep = 1000;         // an optimizer may compute less in its first ones
constexpr double longestNanoseconds = 60e9; // no pass begins after them
using Time = std::chrono::steady_clock::time_point;

Time now() { return std::chrono::steady_clock::now(); }

double medianOf(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Nanoseconds for an element of what is trained: its part of the norm, and the update. Tensor after tensor, as in a
// step.
double timeUpdate(const format::OptimizerTraits &traits, const format::TrainedShape &shape, uint64_t tensors,
                  Workers *workers) {
  const uint64_t count = shape.elements(), bytes = count * sizeof(float);
  const uint64_t stride = bytes + format::keptBytes(traits, shape, {});
  std::vector<float> gradient(count, 1e-3f);
  std::vector<unsigned char> memory(tensors * stride + format::alignment + format::scratchBytes(traits, shape));
  auto *begin = reinterpret_cast<unsigned char *>(format::alignUp(reinterpret_cast<uintptr_t>(memory.data())));
  mebp_session_options options;
  mebp_session_options_init(&options);
  options.optimizer = static_cast<mebp_optimizer>(traits.number);
  const Optimizer &optimizer = *findOptimizer(traits.number);
  double norm = 0;
  std::vector<double> times;
  for (size_t pass = 0; pass < passes; ++pass) {
    Time start = now();
    for (uint64_t i = 0; i < tensors; ++i) {
      TrainedTensor tensor;
      tensor.shape = shape;
      tensor.parameters = begin + i * stride;
      tensor.gradient = gradient.data();
      tensor.scratch = begin + tensors * stride;
      tensor.workers = workers;
      format::placeKept(traits, shape, {}, tensor.parameters + bytes,
                        tensor.parameters + bytes + format::keptBytes(traits, shape, {}, true), tensor.kept);
      norm += squareOf(workers, gradient.data(), count);
      optimizer.update(optionsOf(options), lateStep + pass, tensor);
    }
    times.push_back(nanosecondsSince(start) / static_cast<double>(tensors * count));
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

// The device, and what its self-test lets calls be.
Result<TestedDevice> trust(const KnownBackend &known) {
  if (!known.isForeign)
    return TestedDevice{known.look(), {}};
  Result<TestedDevice> tested = recallOrTest(known);
  if (tested.ok())
    if (Status status = checkSound(known, tested->outcome); !status.ok())
      return status;
  return tested;
}

void leaveOut(const std::vector<std::string> &kernels, std::vector<TimedCall> &calls) {
  auto isMissing = [&](const TimedCall &call) {
    return !isLinked(call.kernel) || std::find(kernels.begin(), kernels.end(), call.kernel) != kernels.end();
  };
  calls.erase(std::remove_if(calls.begin(), calls.end(), isMissing), calls.end());
}

// Of each call, in nanoseconds.
Result<std::vector<double>> timeAll(Timer &timer, size_t calls, const mebp_calibration_options &options) {
  const size_t rounds = options.quick ? 1 : passes;
  std::vector<std::vector<double>> times(calls);
  const Time begin = now();
  for (size_t round = 0; round < rounds && (round == 0 || nanosecondsSince(begin) < longestNanoseconds); ++round)
    for (size_t i = 0; i < calls; ++i) {
      Result<double> time = timer.time(i);
      if (!time.ok())
        return time.status();
      times[i].push_back(*time);
      if (options.goes_on && !options.goes_on(options.user))
        return failure(MEBP_INVALID_ARGUMENT, "calibration was interrupted; nothing was written");
    }
  std::vector<double> medians;
  for (std::vector<double> &ofCall : times)
    medians.push_back(medianOf(std::move(ofCall)));
  return medians;
}

} // namespace

Status Calibration::measure(const mebp_calibration_options &options) {
  const KnownBackend *known = findBackend(options.device);
  if (!known)
    return refuseNumber(options.device);
  if (known->isForeign && options.threads)
    return failure(MEBP_INVALID_ARGUMENT, "the device '%s' has no threads to choose; leave them out", known->name);
  if (Status status = timeKernels(*known, options); !status.ok())
    return status;
  timeHost(options.quick);
  return Status();
}

Status Calibration::timeKernels(const KnownBackend &known, const mebp_calibration_options &options) {
  Result<TestedDevice> trusted = trust(known);
  if (!trusted.ok())
    return trusted.status();
  device = known.name;
  description = trusted->device.description;
  const uint32_t most = options.threads ? options.threads : platform::availableThreads();
  threads = known.isForeign || most == 1 ? std::vector<uint32_t>{1} : std::vector<uint32_t>{1, most};
  Pools pools;
  std::vector<TimedCall> calls = listTimedCalls(pools, options.quick);
  leaveOut(trusted->outcome.missing, calls);
  pools.allocate();
  for (uint32_t count : threads) {
    BackendOptions ways;
    ways.threads = count;
    ways.routes = trusted->outcome.routes;
    Timer timer(calls, pools);
    if (Status status = timer.open(known, ways); !status.ok())
      return status;
    kernels = timer.kernels();
    Result<std::vector<double>> times = timeAll(timer, calls.size(), options);
    if (!times.ok())
      return times.status();
    std::map<std::string, std::vector<Sample>> samples;
    for (size_t i = 0; i < calls.size(); ++i)
      samples[calls[i].rate].push_back({calls[i].amounts, (*times)[i]});
    for (const auto &[name, ofName] : samples)
      rates[name].push_back(fitRates(ofName));
    timeLargeUpdates(timer.workers(), options.quick);
  }
  return Status();
}

void Calibration::timeLargeUpdates(Workers *workers, bool quick) {
  const format::TrainedShape shape = {quick ? 64U : 1024U, 1024, 0};
  for (const format::OptimizerTraits &traits : format::optimizers)
    if (!traits.forwardOnly)
      rates[format::rateOfLarge(traits.name)].push_back({0, 0, 0, timeUpdate(traits, shape, quick ? 1 : 4, workers)});
}

// One thread does these, however many there are and whatever the device.
void Calibration::timeHost(bool quick) {
  auto add = [&](const char *name, double nanoseconds) {
    if (nanoseconds > 0)
      rates[name].assign(threads.size(), Rates{0, 0, 0, nanoseconds});
  };
  for (const format::OptimizerTraits &traits : format::optimizers)
    add(traits.name,
        traits.forwardOnly ? timeDirection(quick) : timeUpdate(traits, {128, 128, 0}, quick ? 4 : 256, nullptr));
  add(format::spillRate, timeSpill(quick));
}

std::string Calibration::toJson() const {
  nlohmann::ordered_json json = {{"version", format::ratesVersion},
                                 {"device", device},
                                 {"description", description},
                                 {"processor", format::processorName()},
                                 {"kernels", kernels},
                                 {"date", today()},
                                 {"threads", threads},
                                 {"terms", format::termNames},
                                 {"nanoseconds", rates}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace); // of words that a driver says, too
}

} // namespace mebp
