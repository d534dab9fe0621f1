// SPDX-License-Identifier: Apache-2.0
//
// What kernels of the gated delta rule share: q, k [N,G*K], v, o [N,H*P], g, beta [N,H], states [1,H*K*P] of one batch
// item or of each, marks [Z,H*K*P].
#pragma once

#include <algorithm>

#include "runtime/backends/cpu/kernel/operands.h"

namespace mebp::cpu {

struct DeltaShape {
  int64_t heads, keyHeads, keyWidth, width; // H, G, K, P
  float scale;

  DeltaShape(const Call &call)
      : heads(call.attributes.heads), keyHeads(call.attributes.kvHeads), keyWidth(call.operands[0].columns / keyHeads),
        width(call.operands[2].columns / heads), scale(call.attributes.scale) {}

  int64_t state() const { return keyWidth * width; } // elements of a head's
  int64_t keyColumn(int64_t head) const { return head / (heads / keyHeads) * keyWidth; }
};

// The call's rows of one batch item.
struct ItemRows {
  int64_t item = 0, first = 0, end = 0;
  bool begins = false, ends = false; // whether they begin, and end, where the item does
  int64_t firstMark = 0;

  int64_t markOf(int64_t row) const { return firstMark + (row - first) / format::markedRows; }
  int64_t marks() const { return format::marksOf(end - first); }

  // The first of `rows`; then each with the next.
  static ItemRows from(const Tensor &rows, const Context &context) { return ItemRows().next(rows, context, 0); }
  ItemRows next(const Tensor &rows, const Context &context) const {
    ItemRows behind = next(rows, context, end);
    behind.firstMark = firstMark + marks();
    return behind;
  }
  bool isThere(const Tensor &rows) const { return first < rows.rows; }

private:
  static ItemRows next(const Tensor &rows, const Context &context, int64_t first) {
    ItemRows found;
    const int64_t token = rows.firstRow + first, inItem = token % context.sequence;
    found.item = token / context.sequence;
    found.first = first;
    found.end = std::min(rows.rows, first + context.sequence - inItem);
    found.begins = context.position + inItem == 0;
    found.ends = inItem + found.end - first == context.sequence;
    return found;
  }
};

// Whether a sample begins with this row of the call.
inline bool isFirst(const Call &call, const Context &context, const Tensor &starts, int64_t row) {
  return placeOf(call.operands[0], row, context).position == startOf(starts, row);
}

// The state of an item: a row of its own where there are several.
inline float *stateOf(const Tensor &states, const ItemRows &rows, const Call &call) {
  return states.present() ? floatRowOf(states, call.attributes.items ? rows.item : 0) : nullptr;
}

} // namespace mebp::cpu
