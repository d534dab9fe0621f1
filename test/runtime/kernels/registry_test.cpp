// SPDX-License-Identifier: Apache-2.0
#include "format/kernels.h"
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/registry.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;

TEST(Registry, KnowsEveryKernelOfTheContract) {
  for (const mebp::format::KernelSignature &kernel : mebp::format::kernelSignatures) {
    const char *name = kernel.name;
    EXPECT_NE(findKernel(name, InstructionSet::Reference), nullptr) << name;
    EXPECT_NE(findKernel(name, instructionSet()), nullptr) << name;
  }
}

TEST(Registry, ReturnsNullForOtherNames) {
  EXPECT_EQ(findKernel("linear_", instructionSet()), nullptr);
  EXPECT_EQ(findKernel("", InstructionSet::Reference), nullptr);
}

TEST(Registry, FallsBackToTheReference) {
  EXPECT_EQ(findKernel("fill", instructionSet()), findKernel("fill", InstructionSet::Reference));
  EXPECT_NE(findKernel("linear", instructionSet()), findKernel("linear", InstructionSet::Reference));
}
