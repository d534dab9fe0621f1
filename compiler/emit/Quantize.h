// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/weight_format.h"

namespace mebp {

/// Stores one row. `scales` and `minima` (f16, one a group) are written for quantised formats only.
/// int4: minimum = f16(min), scale = f16((max - min) / 15), code = round((w - minimum) / scale). This holds a GGUF
/// Q4_1 exactly. int4-sym: the value of largest magnitude becomes code 0 (-8), minimum = -8 scale.
/// int8: scale = f16(absmax / 127), minimum = -128 scale, code = round(w / scale) + 128; holds a GGUF Q8_0 exactly.
/// False where a group's scale or minimum is beyond f16's range.
[[nodiscard]] bool storeRow(format::WeightFormat weightFormat, const float *row, uint64_t columns, unsigned char *data,
                            uint16_t *scales, uint16_t *minima);

} // namespace mebp
