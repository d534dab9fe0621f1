// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/kernels.h"

namespace mebp {

/// Whether a linear layer of this depth takes a product of this rank as its `low`: what kernels have room for, and at
/// most half of the layer's own depth.
constexpr bool isLowRank(int64_t rank, int64_t depth) { return rank <= format::maximumLowRank && 2 * rank <= depth; }

} // namespace mebp
