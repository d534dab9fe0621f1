// SPDX-License-Identifier: Apache-2.0
//
// In place of foreign_devices.cpp and tested_device.cpp, where the CPU is all that a runtime is for.
#include "runtime/backends/foreign_devices.h"
#include "runtime/backends/tested_device.h"

namespace mebp {

static constexpr char absence[] = "this runtime was built for the CPU alone, by -DMEBP_CPU_ALONE=ON";

Device lookAtMlx(Processor) {
  Device device;
  device.absence = absence;
  return device;
}
Result<std::unique_ptr<Backend>> makeMlx(Processor, const Routes &) { return failure(MEBP_UNSUPPORTED, "%s", absence); }

Result<TestedDevice> recallOrTest(const KnownBackend &) { return failure(MEBP_UNSUPPORTED, "%s", absence); }
Result<TestedDevice> testAgain(const KnownBackend &) { return failure(MEBP_UNSUPPORTED, "%s", absence); }
self_test::Outcome recallTest(const KnownBackend &, const Device &) { return {}; }
std::string describe(const self_test::Outcome &) { return ""; }
Status checkSound(const KnownBackend &, const self_test::Outcome &) { return Status(); }

} // namespace mebp
