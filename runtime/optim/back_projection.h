// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mebp {

// out [rows, columns] = scale left [rows, inner] right [inner, columns]; a row of `right` begins `stride` elements
// behind the one before. Each element is one chain of sums along
// `inner`, so that it has the same bits on every machine that fuses multiplication and addition.
void projectBack(const float *left, const float *right, uint64_t stride, uint64_t rows, uint64_t inner,
                 uint64_t columns, float scale, float *out);

} // namespace mebp
