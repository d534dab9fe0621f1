// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/tested_device.h"

#include "runtime/backends/open_library.h"
#include "runtime/backends/self_test/cache.h"
#include "runtime/backends/self_test/self_test.h"

namespace mebp {

using self_test::Outcome;

// Another build may compute otherwise, under the same version.
static std::string identityOf(const Device &device) {
  return device.description + ", mebp " + mebp_version() + ", " +
         identityOfCode(reinterpret_cast<const void *>(&recallTest)) + " " + device.build;
}

static Result<TestedDevice> test(const KnownBackend &known, const Device &device) {
  auto make = [&](const Routes &routes) {
    BackendOptions options;
    options.routes = routes;
    return known.make(options);
  };
  auto makeReference = [](const Routes &) {
    BackendOptions options;
    options.referenceKernels = true;
    return findBackend(MEBP_CPU)->make(options);
  };
  Result<Outcome> outcome = self_test::testDevice(make, makeReference);
  if (!outcome.ok())
    return outcome.status();
  self_test::Cache(known.name).keep(*outcome, identityOf(device));
  return TestedDevice{device, *outcome, true};
}

static Status checkThere(const Device &device) {
  return device.absence.empty() ? Status() : Status(MEBP_UNSUPPORTED, device.absence);
}

Outcome recallTest(const KnownBackend &known, const Device &device) {
  Outcome outcome;
  if (device.absence.empty())
    self_test::Cache(known.name).recall(identityOf(device), outcome);
  return outcome;
}

Result<TestedDevice> recallOrTest(const KnownBackend &known) {
  const Device device = known.look();
  if (Status status = checkThere(device); !status.ok())
    return status;
  TestedDevice tested;
  tested.device = device;
  if (self_test::Cache(known.name).recall(identityOf(device), tested.outcome))
    return tested;
  return test(known, device);
}

Result<TestedDevice> testAgain(const KnownBackend &known) {
  const Device device = known.look();
  if (Status status = checkThere(device); !status.ok())
    return status;
  return test(known, device);
}

static std::string firstWrong(const Outcome &outcome) {
  const size_t others = outcome.wrong.size() - 1;
  return outcome.wrong.front() + (others ? textOf(", and %zu of %u calls more", others, outcome.calls()) : "");
}

std::string describe(const Outcome &outcome) {
  if (outcome.calls() == 0 && outcome.isSound())
    return "";
  std::string line = outcome.isSound() ? textOf("%u calls agree with the CPU's", outcome.calls())
                                       : "refused, it computes wrong: " + firstWrong(outcome);
  for (const std::string &avoided : outcome.avoided)
    line += "; " + avoided;
  return line;
}

Status checkSound(const KnownBackend &known, const Outcome &outcome) {
  if (outcome.isSound())
    return Status();
  return failure(MEBP_UNSUPPORTED,
                 "the device '%s' computes wrong: %s; install another version of its driver or of MLX and try mebp "
                 "devices --test, or use --device cpu",
                 known.name, firstWrong(outcome).c_str());
}

} // namespace mebp
