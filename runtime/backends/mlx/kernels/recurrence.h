// SPDX-License-Identifier: Apache-2.0
//
// The rows of a call that goes on from a state: a part of one batch item, or of each item as many.
#pragma once

#include "runtime/backends/mlx/call.h"

namespace mebp::mlx {

struct ItemRows {
  int items, rows; // how many there are, and rows of each
  Start first;     // the position of each one's first row
  Start behind;    // 0 where the last row is its item's last

  explicit ItemRows(const Call &call) {
    const int all = call.value(0).data.shape(0), sequence = call.live.sequence;
    items = all % sequence == 0 ? all / sequence : 1;
    rows = all / items;
    first = call.live.position + call.firstRow % sequence;
    behind = (call.firstRow + all) % sequence;
  }
};

// What is carried, but nothing where the item begins, whatever is there: where `place` is 0.
inline array carriedFrom(const array &carried, const Start &place) {
  if (place.isKnown())
    return place.number == 0 ? ::mlx::core::zeros_like(carried) : carried;
  return ::mlx::core::where(place.node() == array(0), array(0.0f), carried);
}

} // namespace mebp::mlx
