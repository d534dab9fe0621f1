// SPDX-License-Identifier: Apache-2.0
//
// What tests and the library in device.cpp have in common.
#pragma once

#include "runtime/exec/routes.h"

namespace mebp::test {

enum class PlantedFault { None, ZeroAtOneRow, GarbageBeyond32768Rows, WrongNorm, LacksNorm, Busy };

struct Planted {
  PlantedFault fault = PlantedFault::None;
  const char *description = "a planted device";
  Routes routes; // of the last backend that was made
  int runs = 0;  // of programs of a kernel, so far
};

} // namespace mebp::test
