// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/backends/cpu/vector/product_workspace.h"

#include <algorithm>
#include <cstdint>

namespace mebp::cpu {

// How a product is cut. Only the depth changes how it is rounded, and that does not depend on the threads.
struct Blocking {
  static constexpr int64_t panelWidth = Bf16Products::panelWidth;

  int64_t depth;                          // of a block, a multiple of panelWidth
  int64_t columns = panelWidth, rows = 1; // of a task at most

  // The cheapest of those whose panels are shared out evenly.
  Blocking(int64_t allRows, int64_t allColumns, int64_t allDepth, int64_t depthBlock, int64_t threads) {
    int64_t blocks = std::max<int64_t>(1, ceilDivide(allDepth, depthBlock));
    depth = std::max(roundUp(ceilDivide(allDepth, blocks)), panelWidth);
    int64_t least = INT64_MAX;
    for (int64_t panels = std::min(Workspace::mostPanels, roundUp(allColumns) / panelWidth); panels > 0; panels /= 2)
      for (int64_t share : {512, 256, 128, 64}) {
        if (panels * share > Workspace::mostSums && blocks > 1)
          continue;
        int64_t height = std::clamp<int64_t>(allRows, 1, share);
        int64_t all = ceilDivide(allColumns, panelWidth) * ceilDivide(allRows, height);
        int64_t cost = ceilDivide(all, threads) * costOf(panels, height) / panels;
        if (cost < least)
          least = cost, columns = panels * panelWidth, rows = height;
      }
  }

  static int64_t roundUp(int64_t value) { return ceilDivide(value, panelWidth) * panelWidth; }
  // Of a panel's sums, in whole tiles.
  int64_t rowsOfSums() const { return roundUp(rows); }

private:
  using Workspace = ProductWorkspace<float>;
  // Multiplying a row with a panel costs 16, expanding a panel as much as 24 rows, and taking a left row 1.
  static int64_t costOf(int64_t panels, int64_t rows) { return panels * (rows + 24) * 16 + rows; }
};

} // namespace mebp::cpu
