// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/weight_format.h"

namespace mebp {

/// Stores one row of a GGUF file's blocks by the format that holds them, number for number. Of the types that have a
/// format of their own these are the bytes themselves; others are codes with a scale and a minimum, which f16 has to
/// hold: -8 times the scale of Q4_0, -128 times that of Q8_0. `scales` and `minima` as of storeRow.
void storeBlocks(const format::FileType &type, const unsigned char *blocks, uint64_t columns, unsigned char *data,
                 uint16_t *scales, uint16_t *minima);

} // namespace mebp
