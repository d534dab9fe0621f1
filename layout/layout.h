// SPDX-License-Identifier: Apache-2.0
//
// A session's one piece of memory, and what lies where in it. Everything starts at a multiple of 64 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

#include "format/ports.h"
#include "format/program.pb.h"
#include "layout/checkpoints.h"
#include "layout/gradients.h"
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
  uint64_t bytes = 0;
};

struct Layout {
  LanePlan lane; // offsets are in a lane's memory
  TrainablePlan trainables;
  GradientPlan gradients; // of which scratch is in a lane's
  SubspacePlan subspaces;
  uint64_t lanes = 0; // the first one, the others behind it
  uint64_t laneOf(uint32_t number) const { return lanes + number * lane.bytes; }
  uint64_t scratch = 0;   // the running program's arena, where the device follows placements
  uint64_t workspace = 0; // the kernels'
  uint64_t residency = 0; // which weights are in memory, where they are limited
  uint64_t total = 0;
  uint64_t device = 0; // what the plan has, beside the weights, for a device with memory of its own
  // Of the file of a session that spills: checkpoints, trained weights, then the optimizer's arrays.
  uint64_t fileBytes = 0;
};

// The largest message between the halves of a split model: what programs of one block give each other at once, or what
// flows. A command tells of every row.
uint64_t largestMessage(const format::Bundle &bundle);
// What frames to the other half take until it has them; 0 of a whole model.
uint64_t wireBytes(const format::Bundle &bundle);

Layout planSession(const format::Bundle &bundle, const Choice &choice);

} // namespace mebp::layout
