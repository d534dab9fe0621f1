// SPDX-License-Identifier: Apache-2.0
//
// A session's one piece of memory, and what lies where in it. Everything starts at a multiple of 64 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"
#include "runtime/exec/backend.h"
#include "runtime/train/gradients.h"
#include "runtime/train/trainables.h"

namespace mebp {

struct Layout {
  // Of the input of each layer, one after another: where it is in memory, or in the file of a session that spills. In
  // memory every `spacing`-th, which begins a segment, has a place of its own. The others are there for one segment at
  // a time, in places that all segments share, and are computed again when the backward comes to them. The last segment
  // is whole; the first may lack its beginning, and is then computed again from the ids.
  std::vector<uint64_t> checkpoints;
  bool spilled = false;
  bool forwardOnly = false; // no backward reads what a forward has left
  uint32_t spacing = 1;
  uint32_t missing = 0; // places that the first segment lacks
  uint32_t segmentOf(uint32_t checkpoint) const { return (checkpoint + missing) / spacing; }
  bool isKept(uint32_t checkpoint) const { return (checkpoint + missing) % spacing == 0; }
  // What flows from block to block and is no checkpoint: the head's input, then cotangents; where checkpoints are not
  // in memory, activations as well. Two places that take turns, or one where all programs run in place.
  uint64_t flow[2] = {};
  TrainablePlan trainables;
  uint64_t gradients = 0;
  uint64_t ids = 0, labels = 0;
  uint64_t loss = 0, scale = 0;
  uint64_t scratch = 0;   // the running program's arena, where the backend uses one
  uint64_t workspace = 0; // the backend's
  uint64_t residency = 0; // which weights are in memory, where they are limited
  uint64_t total = 0;
  // The file of a session that spills: checkpoints, then the optimizer's arrays.
  uint64_t fileBytes = 0;
  uint64_t filedCheckpointBytes = 0;
  GradientPlan gradientPlan;
};

// Of a row of an activation or cotangent between two blocks.
uint64_t flowingRowBytes(const format::Model &model);

// Takes options as followPlan gives them.
Layout planSession(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend);

} // namespace mebp
