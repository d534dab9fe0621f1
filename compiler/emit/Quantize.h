// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"

#include "format/storage.h"

namespace mebp {

constexpr format::Storage getStorage(WeightFormat format) {
  switch (format) {
  case WeightFormat::F32:
    return format::Storage::F32;
  case WeightFormat::BF16:
    return format::Storage::BF16;
  case WeightFormat::Int8:
    return format::Storage::Int8;
  case WeightFormat::Int4:
  case WeightFormat::Int4Symmetric:
    return format::Storage::Int4;
  }
  return format::Storage::Unknown;
}

/// Stores one row. `scales` and `minima` (f16, one a group) are written for quantised formats only.
/// int4: minimum = f16(min), scale = f16((max - min) / 15), code = round((w - minimum) / scale). This holds a GGUF
/// Q4_1 exactly. int4-sym: the value of largest magnitude becomes code 0 (-8), minimum = -8 scale.
/// int8: scale = f16(absmax / 127), minimum = -128 scale, code = round(w / scale) + 128; holds a GGUF Q8_0 exactly.
/// False where a group's scale or minimum is beyond f16's range.
[[nodiscard]] bool storeRow(WeightFormat format, const float *row, uint64_t columns, unsigned char *data,
                            uint16_t *scales, uint16_t *minima);

} // namespace mebp
