// SPDX-License-Identifier: Apache-2.0
//
// The scratch that programs share, since one runs at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "format/program.pb.h"

namespace mebp::layout {

inline uint64_t largestArena(const std::vector<const format::Program *> &programs) {
  uint64_t largest = 0;
  for (const format::Program *program : programs)
    largest = std::max<uint64_t>(largest, program->arena_bytes());
  return largest;
}

} // namespace mebp::layout
