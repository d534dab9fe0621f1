// SPDX-License-Identifier: Apache-2.0
//
// Which families of kernels this CPU has, and which one this process uses.
#pragma once

#include <string>
#include <vector>

#include "runtime/backends/cpu/kernel/instruction_set.h"

namespace mebp::cpu {

// As MEBP_KERNELS has it: "avx512_bf16".
const char *nameOf(InstructionSet set);

// What this CPU, its operating system and this build have, the best first, Reference last.
const std::vector<InstructionSet> &availableInstructionSets();

// The most that kernels of this process use: what the environment's MEBP_KERNELS names, or the fastest. Chosen once, at
// the first call of this or the next function.
InstructionSet instructionSet();
// Empty, or one line on a MEBP_KERNELS that names nothing available.
const std::string &instructionSetRefusal();

// The family for a session: `wanted`, but for sessions beside it whose vectors are of another target, of which a
// process has one at a time; then theirs. Each has to be given back.
InstructionSet takeInstructionSet(InstructionSet wanted);
void giveBackInstructionSet(InstructionSet set);

// Chooses again, one of those available, while no kernel runs: so one process can test all of them.
void useInstructionSet(InstructionSet set);

} // namespace mebp::cpu
