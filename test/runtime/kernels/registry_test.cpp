// SPDX-License-Identifier: Apache-2.0
#include "format/kernels.h"
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

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
  const auto &kernels = mebp::format::kernelSignatures;
  EXPECT_TRUE(std::any_of(std::begin(kernels), std::end(kernels), [](const mebp::format::KernelSignature &kernel) {
    return findKernel(kernel.name, instructionSet()) == findKernel(kernel.name, InstructionSet::Reference);
  }));
  EXPECT_NE(findKernel("linear", instructionSet()), findKernel("linear", InstructionSet::Reference));
}
