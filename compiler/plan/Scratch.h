// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/PlannedBuffer.h"
#include "dialects/exec/Exec.h"
#include "format/devices.h"

#include <vector>

namespace mebp {

/// What a program has while it runs, in the arena or, where the device places values itself, on the device.
struct Scratch {
  uint64_t bytes = 0, live = 0; // without gaps between values
  std::vector<PlannedBuffer> atPeak;
};

/// Of a program that `block` runs.
Scratch findScratch(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device);
/// The bytes alone.
uint64_t countScratch(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device);

} // namespace mebp
