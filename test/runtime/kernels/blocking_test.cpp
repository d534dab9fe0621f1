// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/vector/blocking.h"

#include <gtest/gtest.h>

using namespace mebp::cpu;

namespace {

using Workspace = ProductWorkspace<float>;

constexpr int64_t sizes[] = {1, 4, 31, 32, 33, 100, 256, 576, 1000, 1537, 49152};

template <typename Body> void forEachShape(const Body &body) {
  for (int64_t rows : sizes)
    for (int64_t columns : sizes)
      for (int64_t depth : sizes)
        body(rows, columns, depth);
}

} // namespace

TEST(Blocking, FitsTheWorkspace) {
  for (int64_t threads : {1, 2, 7})
    forEachShape([&](int64_t rows, int64_t columns, int64_t depth) {
      const Blocking blocking(rows, columns, depth, 1024, threads);
      const int64_t panels = blocking.columns / Blocking::panelWidth;
      EXPECT_EQ(blocking.columns % Blocking::panelWidth, 0);
      EXPECT_TRUE(panels >= 1 && panels <= Workspace::mostPanels);
      EXPECT_TRUE(blocking.rows >= 1 && blocking.rows <= rows);
      EXPECT_LE(blocking.depth, 1024);
      const bool keepsSums = blocking.depth < depth; // from block to block
      EXPECT_LE(keepsSums ? panels * blocking.rowsOfSums() : 0, Workspace::mostSums)
          << rows << ", " << columns << ", " << depth;
    });
}

TEST(Blocking, RoundsAlikeOnAnyNumberOfThreads) {
  forEachShape([](int64_t rows, int64_t columns, int64_t depth) {
    const int64_t expected = Blocking(rows, columns, depth, 256, 1).depth;
    for (int64_t threads : {2, 3, 16, 100})
      EXPECT_EQ(Blocking(rows, columns, depth, 256, threads).depth, expected);
  });
}

TEST(Blocking, LeavesNoThreadWithoutWork) {
  for (int64_t threads : {2, 4, 8}) {
    const Blocking blocking(256, 1536, 576, 1024, threads);
    EXPECT_GE(ceilDivide(256, blocking.rows) * ceilDivide(1536, blocking.columns), threads);
  }
}
