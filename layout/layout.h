// SPDX-License-Identifier: Apache-2.0
//
// A session's one piece of memory, and what lies where in it. Everything starts at a multiple of 64 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

#include "format/ports.h"
#include "layout/checkpoints.h"
#include "layout/gradients.h"
#include "layout/region.h"
#include "layout/remote.h"
#include "layout/subspaces.h"
#include "layout/trainables.h"

namespace mebp::layout {

// What one micro-batch needs while it is under way (runtime/train/lane.h). Several have as many pieces of memory, all
// laid out alike.
struct LanePlan {
  CheckpointPlan checkpoints;
  RemotePlan remote;
  std::array<uint64_t, std::size(format::stepPorts)> stepPorts; // noOffset: the caller's
  uint64_t wire = 0;                                            // frames to the other half of a split model
  Region memory;
};

struct Layout {
  LanePlan lane; // offsets are in a lane's memory
  TrainablePlan trainables;
  GradientPlan gradients; // of which scratch is in a lane's
  SubspacePlan subspaces;
  uint64_t lanes = 0; // the first one, the others behind it
  uint64_t laneOf(uint32_t number) const { return lanes + number * lane.memory.total(); }
  uint64_t scratch = 0;   // the running program's arena, where the device follows placements
  uint64_t workspace = 0; // the kernels'
  uint64_t residency = 0; // which weights are in memory, where they are limited
  // How much of it is whose; of the file of a session that spills, which has checkpoints, trained weights, then the
  // optimizer's arrays.
  Region memory, file;
  uint64_t total() const { return memory.total(); }
};

Layout planSession(const Facts &facts, const Choice &choice);

} // namespace mebp::layout
