// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/fastest.h"
#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/vector/product_workspace.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace mebp::cpu;

TEST(Bf16Products, FitTheWorkspace) {
  for (InstructionSet set : availableInstructionSets())
    if (const Bf16Products *products = findBf16Products(set)) {
      std::vector<unsigned char> memory(2 * workspaceBytes);
      const ProductWorkspace<uint16_t> workspace(memory.data(), products->depthBlock);
      auto bytes = static_cast<const unsigned char *>(workspace.end(products->depthBlock)) - memory.data();
      EXPECT_LE(products->tileRows, Bf16Products::maximumTileRows) << nameOf(set);
      EXPECT_LE(products->depthBlock, Bf16Products::maximumDepth) << nameOf(set);
      EXPECT_LE(bytes, static_cast<int64_t>(workspaceBytes)) << nameOf(set);
      EXPECT_EQ(products->depthBlock % Bf16Products::panelWidth, 0) << nameOf(set);
      EXPECT_EQ(Bf16Products::panelWidth % products->depthUnit, 0) << nameOf(set);
    }
}

TEST(Fastest, IsOneOfTheSetsAndNeverTheNaiveOne) {
  const std::vector<InstructionSet> &sets = availableInstructionSets();
  InstructionSet fastest = findFastest(sets);
  EXPECT_NE(fastest, InstructionSet::Reference);
  EXPECT_NE(std::find(sets.begin(), sets.end(), fastest), sets.end());
  // Without any that multiplies bf16 there is nothing to find out.
  EXPECT_EQ(findFastest({InstructionSet::Portable, InstructionSet::Reference}), InstructionSet::Portable);
}
