// SPDX-License-Identifier: Apache-2.0
//
// What a task of a product has in its thread's workspace.
#pragma once

#include "runtime/backends/cpu/products/bf16_products.h"

namespace mebp::cpu {

template <typename Element> struct ProductWorkspace {
  static constexpr int64_t width = Bf16Products::panelWidth, tileRows = Bf16Products::maximumTileRows;
  static constexpr int64_t mostPanels = 4;  // of a task, of depthBlock each
  static constexpr int64_t mostSums = 1024; // rows of panels that grow from block to block of the depth

  float *sums;      // [mostSums, width]
  float *tiles;     // [tileRows, width], for each panel
  float *lowPanels; // of a product of low rank: [maximumLowRank, width] each
  float *lowRoom;   // [tileRows, maximumLowRank]
  Element *panels;  // [depthBlock, width] each
  Element *room;    // for a tile of the left factor: [tileRows, depthBlock]

  ProductWorkspace(unsigned char *workspace, int64_t depthBlock)
      : sums(reinterpret_cast<float *>(workspace)), tiles(sums + mostSums * width),
        lowPanels(tiles + mostPanels * tileRows * width), lowRoom(lowPanels + mostPanels * maximumLowRank * width),
        panels(reinterpret_cast<Element *>(lowRoom + tileRows * maximumLowRank)),
        room(panels + mostPanels * depthBlock * width) {}

  const void *end(int64_t depthBlock) const { return room + tileRows * depthBlock; }
};

} // namespace mebp::cpu
