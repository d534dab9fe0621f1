// SPDX-License-Identifier: Apache-2.0
//
// How much of the mapped weights has to be in memory at once: what one kernel call reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/program.pb.h"

namespace mebp {

struct WeightReads {
  uint64_t windows = 0; // of format/residency.h, wherever the weights lie in the file
  std::string kernel;   // which call reads so many
};

// The call of a block's program that reads the most weights. `number` may be format::noProgram.
WeightReads largestWeightReads(const format::Bundle &bundle, const format::Block &block, int32_t number);

// For each weight of the bundle, whether a program of this block multiplies with some experts' rows of it: which, is
// known when it has come to them.
std::vector<bool> findExpertWeights(const format::Bundle &bundle, const format::Block &block);

} // namespace mebp
