// SPDX-License-Identifier: Apache-2.0
//
// Which numbers a step's dropout zeroes. It depends on seed, step, block, the dropout's place in its block, sample,
// position and column alone: so it is the same in the forward, where that is computed again, and however a step is cut
// into chunks and micro-batches.
#pragma once

#include <cstdint>

#include "format/random.h"

namespace mebp {

// Of a run. Off, dropout passes its input on.
struct Dropout {
  bool isOn = false;
  uint64_t key = 0;         // of seed, step and block
  uint64_t firstSample = 0; // the step's samples before the run's own
};

// 32 bits decide over each number; two columns share a draw.
struct DropoutRow {
  uint64_t key, position;

  DropoutRow(const Dropout &dropout, int32_t salt, int64_t item, int64_t row)
      : key(format::randomBits(dropout.key, static_cast<uint64_t>(salt),
                               dropout.firstSample + static_cast<uint64_t>(item))),
        position(static_cast<uint64_t>(row)) {}
  uint32_t bitsOf(int64_t column) const {
    const uint64_t both = format::randomBits(key, position, static_cast<uint64_t>(column / 2));
    return static_cast<uint32_t>(column % 2 ? both >> 32 : both);
  }
};

// Below it, a number is zeroed.
inline uint32_t dropoutThreshold(float p) { return static_cast<uint32_t>(static_cast<double>(p) * 0x1.0p32); }
// What the others are multiplied with, so that their mean stays.
inline float dropoutScale(float p) { return 1.0f / (1.0f - p); }

} // namespace mebp
