// SPDX-License-Identifier: Apache-2.0
//
// What a compiler has to know of the runtime's kernels (docs/kernels.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mebp::format {

// The highest rank of a product beside a linear layer's own: kernels have room for its weight.
constexpr int64_t maximumLowRank = 64;

// Scratch of the CPU's kernels, for one thread within one call.
constexpr size_t workspaceBytes = 512 * 1024;

} // namespace mebp::format
