// SPDX-License-Identifier: Apache-2.0
//
// What all kernels of mixtures of experts share. A token has `slots` slots, whose columns lie side by side in its row.
#pragma once

#include "runtime/backends/cpu/kernel/operands.h"

namespace mebp::cpu {

// The weights of an expert: some rows of the whole weight.
inline Tensor expertOf(const Tensor &w, int64_t expert, int64_t rows) {
  Tensor part = w;
  const int64_t first = expert * rows;
  part.data = static_cast<unsigned char *>(w.data) + first * static_cast<int64_t>(format::bytesOf(w.storage, w.stride));
  if (w.group) {
    part.scales += first * (w.stride / w.group);
    part.minima += first * (w.stride / w.group);
  }
  part.rows = rows;
  return part;
}

// ids [N,J]: which expert each slot of a token goes to.
class Slots {
public:
  Slots(const Tensor &ids, int64_t experts) : ids(ids), experts(experts) {}

  int64_t rows() const { return ids.rows; }
  int64_t count() const { return ids.columns; } // of a token
  int64_t all() const { return rows() * count(); }

  // -1 where there is no such expert: a router gives none, but a number may be damaged.
  int64_t expertAt(int64_t row, int64_t slot) const {
    const float id = floatRowOf(ids, row)[slot];
    return id >= 0 && id < static_cast<float>(experts) ? static_cast<int64_t>(id) : -1;
  }
  int64_t expertOfSlot(int64_t slot) const { return expertAt(slot / count(), slot % count()); }

private:
  const Tensor &ids;
  int64_t experts;
};

// Columns of one slot: `whole` has so many for each, or has them once for all.
inline Row slotOf(const Tensor &whole, int64_t row, int64_t slot, int64_t columns) {
  return rowOf(whole, row) + (whole.columns == columns ? 0 : slot * columns);
}

} // namespace mebp::cpu
