// SPDX-License-Identifier: Apache-2.0
//
// The sizes of a matrix as it is stored.
#pragma once

#include <cstdint>

#include "format/program.pb.h"

namespace mebp {

inline bool isQuantised(format::ElementType element) { return element == format::INT4 || element == format::INT8; }
// What kernels may write.
inline bool isActivation(format::ElementType element) { return element == format::F32 || element == format::BF16; }

// Elements from row to row: whole groups where quantised.
uint64_t storedStride(format::ElementType element, uint64_t columns);
uint64_t storedRowBytes(format::ElementType element, uint64_t columns);

} // namespace mebp
