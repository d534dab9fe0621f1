// SPDX-License-Identifier: Apache-2.0
//
// What keeping the mapped weights within a limit takes: both halves count it.
#pragma once

#include <cstdint>

namespace mebp::format {

// Pages come and go in aligned windows of this size: a fault also maps what is cached of the window around it.
constexpr uint64_t residencyWindow = 64 << 10;

// The most windows that so many bytes can lie in, wherever they begin.
constexpr uint64_t windowsOf(uint64_t bytes) { return bytes > 1 ? (bytes - 2) / residencyWindow + 2 : 1; }

// A ring of windows in the order of their use, and its beginning: two 32-bit numbers each.
constexpr uint64_t residencyBytes(uint64_t weightsBytes) { return (windowsOf(weightsBytes) + 1) * 8; }

} // namespace mebp::format
