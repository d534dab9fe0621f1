// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/self_test.h"

#include <algorithm>
#include <chrono>

#include "runtime/backends/self_test/calls.h"
#include "runtime/backends/self_test/trial.h"

namespace mebp::self_test {

namespace {

// In f32, what a gradient may be off by in all (docs/measurements.md); sums of tens of thousands stay below. In bf16 a
// device may round the other factor as well, and the result: each by 2^-9 at most.
constexpr double allowedInF32 = 2e-5, allowedInBf16 = 1.0 / 256;

class SelfTest {
public:
  SelfTest(const Make &make, const Make &makeReference)
      : make(make), makeReference(makeReference), calls(listCalls()) {}

  Result<Outcome> run() {
    const auto begin = std::chrono::steady_clock::now();
    Outcome best;
    if (Status status = compare(best); !status.ok())
      return status;
    // A way is closed for good where fewer calls are wrong without it.
    for (const Way &way : ways) {
      Outcome without;
      without.routes = best.routes;
      without.routes.*way.open = false;
      if (best.isSound())
        break;
      if (Status status = compare(without); !status.ok())
        return status;
      if (without.wrong.size() >= best.wrong.size())
        continue;
      without.avoided = best.avoided;
      without.avoided.push_back(std::string(way.name) + " are wrong: " + firstHealed(best, without) + "; " +
                                way.detour + " are computed instead");
      best = std::move(without);
    }
    best.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return best;
  }

private:
  // One call after another, each forgotten before the next: together they would take a hundred megabytes.
  Status compare(Outcome &out) const {
    for (const Call &call : calls) {
      const Trial trial(call);
      Result<std::unique_ptr<Backend>> reference = makeReference({}), tested = make(out.routes);
      for (const auto *made : {&reference, &tested})
        if (!made->ok())
          return made->status();
      Result<Results> expected = trial.run(**reference);
      // Of a runtime that was built for some bundles: those ask nothing of the device that cannot be compared.
      if (expected.status().code() == MEBP_UNSUPPORTED)
        addMissing(call.kernel, out);
      else if (!expected.ok())
        return expected.status().in("the CPU");
      else
        compareCall(call, trial.run(**tested), *expected, out);
    }
    return Status();
  }

  static void addMissing(const std::string &kernel, Outcome &out) {
    if (std::find(out.missing.begin(), out.missing.end(), kernel) == out.missing.end())
      out.missing.push_back(kernel);
  }

  static void compareCall(const Call &call, Result<Results> results, const Results &expected, Outcome &out) {
    if (results.status().code() == MEBP_UNSUPPORTED)
      return addMissing(call.kernel, out);
    if (!results.ok()) {
      out.wrong.push_back(describe(call) + " does not run: " + results.status().message());
      out.hasFailed = true;
      return;
    }
    const bool rounds = isInBf16(call);
    Compared &compared = out.kernels[call.kernel];
    ++compared.calls;
    compared.inBf16 += rounds;
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, relativeError((*results)[i], expected[i]));
    double &ofKernel = rounds ? compared.bf16 : compared.f32;
    ofKernel = std::max(ofKernel, worst);
    if (const double allowed = rounds ? allowedInBf16 : allowedInF32; worst > allowed)
      out.wrong.push_back(
          textOf("%s is off by %.2g, where rounding explains %.1g", describe(call).c_str(), worst, allowed));
  }

  static std::string firstHealed(const Outcome &before, const Outcome &after) {
    for (const std::string &wrong : before.wrong)
      if (std::find(after.wrong.begin(), after.wrong.end(), wrong) == after.wrong.end())
        return wrong;
    return before.wrong.front();
  }

  const Make &make, &makeReference;
  const std::vector<Call> calls;
};

} // namespace

Result<Outcome> testDevice(const Make &make, const Make &makeReference) { return SelfTest(make, makeReference).run(); }

} // namespace mebp::self_test
