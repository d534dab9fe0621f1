// SPDX-License-Identifier: Apache-2.0
//
// Where tensors and values begin: in weights.bin, in an arena and in a session's memory.
#pragma once

#include <cstdint>

namespace mebp::format {

constexpr uint64_t alignment = 64; // a cache line, and the widest vector

constexpr uint64_t alignUp(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

} // namespace mebp::format
