// SPDX-License-Identifier: Apache-2.0
//
// Products between whose instructions a thread does other work: it expands the panel that is multiplied next, and
// finishes sums that were stored before. Both are cut into small parts, one for the slot behind each instruction.
#pragma once

#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu {

struct SlotWork {
  static constexpr int64_t roomFloats = 2 * 1024 + 256; // of scales, minima, and rows that are yet to be transposed

  // The panel to be expanded, as Bf16Products::expand(Transposed) would; `room` lies at whole lines of the cache. Parts
  // are those of one step of the products each.
  const Tensor *w = nullptr;
  bool transposed = false;
  int64_t row = 0, column = 0, count = 0;
  uint16_t *panel = nullptr;
  float *room = nullptr;
  int64_t parts = 0, partsDone = 0;
  int64_t steps = 0, stepsDone = 0; // of all products meanwhile: parts are spread over them

  // finish(sums, r) for each row r of the sums before.
  const void *sums = nullptr;
  void (*finish)(const void *sums, int64_t row) = nullptr;
  int64_t rows = 0, rowsDone = 0;

  bool mustExpand() const { return partsDone < parts && partsDone * steps <= stepsDone * parts; }
  void finishRows() {
    for (; rowsDone < rows; ++rowsDone)
      finish(sums, rowsDone);
  }
};

struct FusedProducts {
  // Begins the expansion of work's panel. What cannot be cut into parts is expanded at once.
  void (*begin)(SlotWork &work);
  // Bf16Products::multiply of whole tiles, and what fits of the work.
  void (*multiply)(int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel, float *sums,
                   int64_t sumsStride, bool adds, SlotWork &work);
  // Ends the expansion.
  void (*end)(SlotWork &work);
};

} // namespace mebp::cpu
