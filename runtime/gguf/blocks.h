// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/blocks.h"

namespace mebp::gguf {

using format::BlockQ4K, format::BlockQ5K, format::BlockQ6K;

constexpr unsigned blockNumbers = 256;

// The block that loses least of 256 numbers in the sum of squares, of those that are searched. What f16 cannot hold
// gives a block with a scale that is not finite.
void quantizeBlock(const float *values, BlockQ4K &block);
void quantizeBlock(const float *values, BlockQ5K &block);
void quantizeBlock(const float *values, BlockQ6K &block);

} // namespace mebp::gguf
