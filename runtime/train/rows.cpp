// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/rows.h"

#include <cstring>

namespace mebp {

void gatherRows(void *matrix, uint64_t rowBytes, Rows rows) {
  auto *data = static_cast<unsigned char *>(matrix);
  for (uint64_t i = 0; i < rows.count; ++i)
    if (auto row = static_cast<uint64_t>(rows.numbers[i]); row != i)
      std::memcpy(data + i * rowBytes, data + row * rowBytes, rowBytes);
}

void scatterRows(void *matrix, uint64_t rowBytes, Rows rows, uint64_t total) {
  auto *data = static_cast<unsigned char *>(matrix);
  uint64_t left = rows.count;
  for (uint64_t row = total; row-- > 0;) {
    if (left == 0 || static_cast<uint64_t>(rows.numbers[left - 1]) != row)
      std::memset(data + row * rowBytes, 0, rowBytes);
    else if (--left != row)
      std::memcpy(data + row * rowBytes, data + left * rowBytes, rowBytes);
  }
}

} // namespace mebp
