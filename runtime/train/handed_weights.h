// SPDX-License-Identifier: Apache-2.0
//
// Weights that the caller hands in block by block, of a model that this machine has in part or not at all (mebp.h,
// on_block).
//
// 1. The order in which blocks run is known: forward to the head, and down again to the lowest that has a backward. A
//    visit is one of them running once, and a walk goes over all visits of a loss or of a step.
// 2. At a visit, what neither it nor the `ahead` visits behind it read becomes free; then what is lacking is asked for,
//    the nearest first. So a block that is read at the turn stays. Of what the visit itself reads the caller is told to
//    have it there (on_block_ready).
// 3. At the end of a call all become free.
#pragma once

#include <cstdint>
#include <vector>

#include "mebp/mebp.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/weight_regions.h"
#include "runtime/core/status.h"
#include "runtime/exec/buffers.h"

namespace mebp {

struct Visit {
  uint32_t block = 0;
  mebp_direction direction = MEBP_FORWARD;

  bool operator==(const Visit &other) const { return block == other.block && direction == other.direction; }
};

class HandedWeights {
public:
  ~HandedWeights() { (void)release(); }
  // The visits are a step's: those to the head are a loss's.
  void create(const Bundle &opened, const mebp_session_options &options, Backend &running, const Buffers &ofSession,
              std::vector<Visit> ofStep);
  bool areAsked() const { return callback; }

  void beginWalk(bool isForwardOnly);
  // Whatever its block reads is there until the next one.
  Status enter(const Visit &visit);
  Status release();
  // Where a weight lies that the last visit reads.
  Binding find(uint32_t weight) const;

private:
  struct Region {
    bool isAsked = false;     // for, and not free since
    bool isThere = false;     // with all bytes
    Buffer buffer = noBuffer; // noBuffer: the bundle's file has it
  };
  Status ask(uint32_t block, size_t visit);
  Status await(uint32_t block);
  Status free(uint32_t block);

  const Bundle *bundle = nullptr;
  const Buffers *buffers = nullptr; // the file's
  mebp_on_block callback = nullptr;
  mebp_on_block_ready onReady = nullptr;
  void *user = nullptr;
  Backend *backend = nullptr;
  uint32_t ahead = 0;
  std::vector<Visit> visits;
  size_t at = 0, end = 0; // of the walk
  WeightRegions regions;
  std::vector<Region> held; // of each block
  std::vector<bool> wanted; // of these, while a visit begins
};

} // namespace mebp
