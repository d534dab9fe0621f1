// SPDX-License-Identifier: Apache-2.0
//
// The instructions that kernels are written for: which of them this CPU has, and up to which this process uses them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/backends/cpu/kernel.h"

namespace mebp::cpu {

// Each family of kernels has all that those before it on the same CPU have. Reference: the naive kernels; Portable:
// vectors of the oldest CPU that the build is for.
enum class InstructionSet : uint8_t { Reference, Portable, Avx2, Avx512, Avx512Bf16, AmxBf16, Neon, NeonBf16 };

// Which kernels the registry has for it.
inline Family familyOf(InstructionSet set) {
  return set == InstructionSet::Reference ? Family::Reference : Family::Vector;
}

// As MEBP_KERNELS has it: "avx512_bf16".
const char *nameOf(InstructionSet set);

// What this CPU, its operating system and this build have, the best first, Reference last.
const std::vector<InstructionSet> &availableInstructionSets();

// The most that kernels of this process use: what the environment's MEBP_KERNELS names, or the fastest. Chosen once, at
// the first call of this or the next function.
InstructionSet instructionSet();
// Empty, or one line on a MEBP_KERNELS that names nothing available.
const std::string &instructionSetRefusal();

// Chooses anew, one of those available, while no kernel runs: so one process can test all of them.
void useInstructionSet(InstructionSet set);

} // namespace mebp::cpu
