// SPDX-License-Identifier: Apache-2.0
//
// Plans what lies where in a piece of memory, or in a file.
#pragma once

#include <cstdint>

#include "format/alignment.h"

namespace mebp::layout {

constexpr uint64_t noOffset = UINT64_MAX;

// Hands out aligned places one after another. A bundle whose sizes add up to the absurd gets a total that no system
// grants, instead of one that has wrapped around.
class Placer {
public:
  uint64_t take(uint64_t bytes) {
    uint64_t offset = used;
    used = bytes < limit ? used + format::alignUp(bytes) : limit;
    used = used < limit ? used : limit;
    return offset;
  }
  uint64_t total() const { return used; }

private:
  static constexpr uint64_t limit = uint64_t(1) << 60;
  uint64_t used = 0;
};

} // namespace mebp::layout
