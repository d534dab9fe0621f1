// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace mebp {

/// What lies in a file on a disk instead of in memory. Each includes those before it.
enum class Spill { None, Checkpoints, All }; // all: the optimizer's state, too

/// As the command line calls it: "none", "checkpoints" or "all".
const char *nameOf(Spill spill);

/// What trades time for memory: the choices that a plan consists of.
struct Schedule {
  int64_t chunk = 0;   // positions of a chunk along the sequence; 0: layers run on whole sequences
  int64_t spacing = 1; // every how many layers a checkpoint is kept; the others are computed again
  int64_t lossRows = 128;
  int64_t lossColumns = 2048;
  Spill spill = Spill::None;
};

/// "chunks of 64 tokens, one checkpoint in 2 layers, loss in tiles of 128 x 2048".
std::string describeSchedule(const Schedule &schedule);

} // namespace mebp
