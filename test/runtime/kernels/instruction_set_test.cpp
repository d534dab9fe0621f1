// SPDX-License-Identifier: Apache-2.0
//
// What MEBP_KERNELS does to a process is in mebp_run_test.cpp.
#include "runtime/backends/cpu/choice.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <hwy/targets.h>

using namespace mebp::cpu;

TEST(InstructionSet, TheBestIsFirstAndTheReferenceLast) {
  const std::vector<InstructionSet> &sets = availableInstructionSets();
  ASSERT_GE(sets.size(), 2u);
  EXPECT_EQ(sets.back(), InstructionSet::Reference);
  EXPECT_EQ(std::count(sets.begin(), sets.end(), InstructionSet::Reference), 1);
#if HWY_ARCH_X86
  EXPECT_TRUE(std::is_sorted(sets.rbegin(), sets.rend())) << "each has what those before it have";
  EXPECT_EQ(sets[sets.size() - 2], InstructionSet::Portable);
#else
  EXPECT_EQ(sets[sets.size() - 2], InstructionSet::Neon);
#endif
}

TEST(InstructionSet, IsTheMostThatIsDispatchedTo) {
  for (InstructionSet set : availableInstructionSets()) {
    useInstructionSet(set);
    EXPECT_EQ(instructionSet(), set);
#if HWY_ARCH_X86
    bool avx512 = hwy::SupportedTargets() & HWY_AVX3, avx2 = hwy::SupportedTargets() & HWY_AVX2;
    if (set == InstructionSet::Portable || set == InstructionSet::Avx2) {
      EXPECT_FALSE(avx512) << nameOf(set);
      EXPECT_EQ(avx2, set == InstructionSet::Avx2) << nameOf(set);
    } else if (set != InstructionSet::Reference) {
      EXPECT_TRUE(avx512) << nameOf(set);
    }
#endif
  }
  useInstructionSet(availableInstructionSets().front());
}
