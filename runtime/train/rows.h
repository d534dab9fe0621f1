// SPDX-License-Identifier: Apache-2.0
//
// Some rows of a matrix, moved to its front and back to their places. Their numbers ascend, so both work in place.
#pragma once

#include <cstdint>

namespace mebp {

struct Rows {
  const int32_t *numbers;
  uint64_t count;
};

void gatherRows(void *matrix, uint64_t rowBytes, Rows rows);
// All others, of `total`, become zeros.
void scatterRows(void *matrix, uint64_t rowBytes, Rows rows, uint64_t total);

} // namespace mebp
