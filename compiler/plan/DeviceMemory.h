// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "format/devices.h"

namespace mebp {

/// What a device that places values itself holds at the fullest moment of a program, but for the block's parameters.
struct DevicePeak {
  uint64_t bytes = 0;
  llvm::SmallVector<mlir::Value> values; // what flows in, and what is still read
  exec::KernelOp kernel;                 // that runs; null: none
  uint64_t withinKernel = 0;             // of `bytes`: what it makes beside its results
};

/// Of a program that `block` runs.
DevicePeak findDevicePeak(exec::ProgramOp program, train::BlockOp block, const format::DeviceTraits &device);

} // namespace mebp
