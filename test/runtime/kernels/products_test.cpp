// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/fastest.h"
#include "runtime/backends/cpu/products/bf16_products.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace mebp::cpu;

TEST(Bf16Products, FitTheWorkspace) {
  for (InstructionSet set : availableInstructionSets())
    if (const Bf16Products *products = findBf16Products(set)) {
      constexpr int64_t width = Bf16Products::panelWidth, taskRows = 512, floats = sizeof(float);
      int64_t sums = taskRows * width * floats, tile = products->tileRows * width * floats;
      int64_t factors = (width + products->tileRows) * products->depthBlock * static_cast<int64_t>(sizeof(uint16_t));
      int64_t low = (width + products->maximumTileRows) * maximumLowRank * floats;
      EXPECT_LE(products->tileRows, products->maximumTileRows) << nameOf(set);
      EXPECT_LE(sums + tile + low + factors, static_cast<int64_t>(workspaceBytes)) << nameOf(set);
      EXPECT_EQ(products->depthBlock % width, 0) << nameOf(set);
      EXPECT_EQ(width % products->depthUnit, 0) << nameOf(set);
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
