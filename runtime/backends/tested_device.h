// SPDX-License-Identifier: Apache-2.0
//
// Which of a device's ways can be trusted.
#pragma once

#include <string>

#include "runtime/backends/backends.h"
#include "runtime/backends/self_test/outcome.h"

namespace mebp {

struct TestedDevice {
  Device device; // as it was looked at
  self_test::Outcome outcome;
  bool isNew = false; // tested now, and not recalled from the last time
};

// What the last self-test said of this device, its driver and this build; where nobody remembers one, it is run now.
Result<TestedDevice> recallOrTest(const KnownBackend &known);
// Runs it, whatever the last one said.
Result<TestedDevice> testAgain(const KnownBackend &known);
// Runs nothing: no calls where it has not been tested.
self_test::Outcome recallTest(const KnownBackend &known, const Device &device);

// One line: "279 calls agree with the CPU's", with what is avoided; or what is wrong; or nothing where nothing is
// known.
std::string describe(const self_test::Outcome &outcome);
// Refuses a device that computes wrong.
Status checkSound(const KnownBackend &known, const self_test::Outcome &outcome);

} // namespace mebp
