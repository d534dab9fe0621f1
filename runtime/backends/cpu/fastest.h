// SPDX-License-Identifier: Apache-2.0
//
// Which instructions multiply bf16 fastest, found out by doing it: AVX-512's bf16 dot products are twice as fast as f32
// on one CPU, and half as fast on another.
#pragma once

#include <vector>

#include "runtime/backends/cpu/kernel/instruction_set.h"

namespace mebp::cpu {

// One of `sets`, the best first, in about a millisecond. A set with bf16 products has to be clearly faster than the
// best without, so that two runs on a machine make the same choice, and to agree with it.
InstructionSet findFastest(const std::vector<InstructionSet> &sets);

} // namespace mebp::cpu
