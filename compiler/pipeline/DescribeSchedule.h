// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"

namespace mebp {

/// What a plan does, in words of people who train: "64 tokens at a time, keeps the inputs of 15 of 28 layers, loss for
/// 128 tokens x 2048 vocabulary entries at a time". `layers`: how many have inputs for a backward, and whether these
/// are all that there are; `valueBytes`: what is kept of them beside.
std::string describeSchedule(const Schedule &schedule, uint64_t layers, bool areAll, uint64_t valueBytes);

} // namespace mebp
