// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace mebp {

/// What trades time for memory: the choices that a plan consists of.
struct Schedule {
  int64_t chunk = 0;   // positions of a chunk along the sequence; 0: layers run on whole sequences
  int64_t spacing = 1; // every how many blocks a checkpoint is kept; the others are computed again
  int64_t lossRows = 128;
  int64_t lossColumns = 2048;
};

/// "chunks of 64 tokens, one checkpoint in 2 blocks, loss in tiles of 128 x 2048".
std::string describeSchedule(const Schedule &schedule);

} // namespace mebp
