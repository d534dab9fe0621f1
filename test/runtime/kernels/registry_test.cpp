// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/kernel.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;

TEST(Registry, KnowsEveryKernelOfTheContract) {
  for (const char *name : {"embedding",
                           "position_embedding",
                           "linear",
                           "linear_input_gradient",
                           "linear_weight_gradient",
                           "rms_norm",
                           "rms_norm_input_gradient",
                           "layer_norm",
                           "layer_norm_input_gradient",
                           "rope",
                           "attention",
                           "attention_gradient",
                           "silu",
                           "relu",
                           "gelu",
                           "silu_gradient",
                           "relu_gradient",
                           "gelu_gradient",
                           "gated",
                           "gated_gradient",
                           "add",
                           "multiply",
                           "scale",
                           "split",
                           "concat",
                           "fill",
                           "cross_entropy_tile",
                           "cross_entropy"}) {
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
