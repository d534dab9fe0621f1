// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mebp::cpu {

// The families of kernels. Each has all that those before it on the same CPU have. Reference: the naive kernels;
// Portable: vectors of the oldest CPU that the build is for.
enum class InstructionSet : uint8_t { Reference, Portable, Avx2, Avx512, Avx512Bf16, AmxBf16, Neon, NeonBf16 };

} // namespace mebp::cpu
