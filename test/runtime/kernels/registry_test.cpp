// SPDX-License-Identifier: Apache-2.0
#include "format/kernels.h"
#include "runtime/backends/cpu/kernel.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;

TEST(Registry, KnowsEveryKernelOfTheContract) {
  for (const mebp::format::KernelSignature &kernel : mebp::format::kernelSignatures) {
    const char *name = kernel.name;
    EXPECT_NE(findKernel(name, Family::Reference), nullptr) << name;
    EXPECT_NE(findKernel(name, Family::Vector), nullptr) << name;
  }
}

TEST(Registry, ReturnsNullForOtherNames) {
  EXPECT_EQ(findKernel("linear_", Family::Vector), nullptr);
  EXPECT_EQ(findKernel("", Family::Reference), nullptr);
}

TEST(Registry, FallsBackToTheReference) {
  EXPECT_EQ(findKernel("fill", Family::Vector), findKernel("fill", Family::Reference));
  EXPECT_NE(findKernel("linear", Family::Vector), findKernel("linear", Family::Reference));
}
