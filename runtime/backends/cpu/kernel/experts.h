// SPDX-License-Identifier: Apache-2.0
//
// What all kernels of mixtures of experts share. A token has `slots` slots, whose columns lie side by side in its row.
#pragma once

#include "runtime/backends/cpu/kernel/operands.h"

namespace mebp::cpu {

// Where a weight has what each expert multiplies with: in rows of its own [E·O,K]; or, where all experts have the same
// rows, in columns of which an expert has every E-th [O,K·E], as PEFT lays out lora_B.
struct ExpertLayout {
  int64_t outputs, inputs, experts; // of one expert, and how many there are
  bool inColumns;

  // `slot`: the columns that x, or its cotangent, has for each slot; of x that all slots share it does not matter.
  ExpertLayout(const Tensor &w, int64_t outputs, int64_t slot)
      : outputs(outputs), inputs(w.rows == outputs ? slot : w.columns),
        experts(w.rows == outputs ? w.columns / slot : w.rows / outputs), inColumns(w.rows == outputs) {}

  int64_t row(int64_t expert, int64_t output) const { return inColumns ? output : expert * outputs + output; }
  int64_t column(int64_t expert, int64_t input) const { return inColumns ? input * experts + expert : input; }
  int64_t step() const { return inColumns ? experts : 1; } // from one of an expert's columns to the next

  // An expert's rows.
  Tensor rowsOf(const Tensor &w, int64_t expert) const {
    Tensor part = w;
    const int64_t first = row(expert, 0);
    part.data =
        static_cast<unsigned char *>(w.data) + first * static_cast<int64_t>(format::bytesOf(w.storage, w.stride));
    if (w.group) {
      part.scales += first * (w.stride / w.group);
      part.minima += first * (w.stride / w.group);
    }
    part.rows = outputs;
    return part;
  }
};

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
