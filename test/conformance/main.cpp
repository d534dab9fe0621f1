// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

#include "agreement.h"
#include "runtime/backends/cpu/choice.h"

namespace mebp::test {

mebp_backend numberUnderTest = MEBP_CPU;

} // namespace mebp::test

// conformance_tests [--device NAME], and what googletest takes; --families lists what MEBP_KERNELS may be here.
int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2 && std::strcmp(argv[1], "--families") == 0) {
    for (mebp::cpu::InstructionSet set : mebp::cpu::availableInstructionSets())
      std::printf("%s\n", mebp::cpu::nameOf(set));
    return 0;
  }
  const bool isNamed = argc == 3 && std::strcmp(argv[1], "--device") == 0;
  const mebp::KnownBackend *known = mebp::findBackend(isNamed ? argv[2] : "cpu");
  if (!known || (argc > 1 && !isNamed)) {
    std::fprintf(stderr, "conformance_tests --device NAME: choose %s\n", mebp::listBackends().c_str());
    return 2;
  }
  const mebp::Device device = known->look();
  if (!device.absence.empty()) {
    std::fprintf(stderr, "%s: %s\n", known->name, device.absence.c_str());
    return 2;
  }
  std::printf("%s: %s\n", known->name, device.description.c_str());
  mebp::test::numberUnderTest = known->number;
  return RUN_ALL_TESTS();
}
