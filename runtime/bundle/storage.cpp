// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/storage.h"

#include "format/container.h"

namespace mebp {

uint64_t storedStride(format::ElementType element, uint64_t columns) {
  return isQuantised(element) ? (columns + format::groupSize - 1) / format::groupSize * format::groupSize : columns;
}

uint64_t storedRowBytes(format::ElementType element, uint64_t columns) {
  uint64_t stride = storedStride(element, columns);
  return element == format::INT4   ? stride / 2
         : element == format::INT8 ? stride
         : element == format::BF16 ? stride * 2
                                   : stride * 4;
}

} // namespace mebp
