// SPDX-License-Identifier: Apache-2.0
//
// What flows from block to block, and which of it a backward finds again. The input of a layer is a checkpoint: it is
// kept, or computed again with others of its segment, or in a file.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/checkpoints.h"
#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/rows.h"

namespace mebp {

struct BlockRange {
  uint32_t begin = 0, end = 0;
};

// `rows`, below: how many rows of what flows are live, batch times sequence.
class Checkpoints {
public:
  // The file is open where the plan needs one.
  void create(layout::CheckpointPlan planned, std::vector<layout::Border> flowing, unsigned char *sessionMemory,
              SpillFile &sessionFile, const MemoryCheck &memoryCheck);

  // Where a program of `block` finds a flow, where its forward writes one, and where the cotangent of that one is.
  void *inputOf(uint32_t block, std::string_view flow, bool givesGradients) const;
  void *outputOf(uint32_t block, std::string_view flow) const { return inputOf(block + 1, flow, false); }
  void *cotangentOf(uint32_t block, std::string_view flow) const;
  const std::vector<layout::Flow> &flowsBehind(uint32_t block) const { return borders[block].flows; }
  bool isGathered() const { return plan.gathered; }
  // What the head takes, from a row on.
  void *headInput(std::string_view flow, uint64_t row) const;
  // Before the head runs on some rows of its input, and after: moves them to the front, and the cotangents back to
  // their places among zeros. In between, each row of the cotangents may be multiplied by a number.
  void gatherHeadInput(Rows rows) const;
  void scaleHeadCotangents(const float *factors, uint64_t rows) const;
  void scatterHeadCotangents(Rows rows, uint64_t total) const;

  // After a forward: leaves the output where a backward finds it.
  Status keepOutput(uint32_t block, uint64_t rows);
  // Whether the input of a backward, or what a forward leaves for one, is in the file.
  bool isSpilledInput(uint32_t block) const { return block > 0 && isSpilled(block - 1); }
  bool isSpilled(uint32_t checkpoint) const { return plan.spilled && checkpoint >= plan.first && checkpoint < count(); }
  // After a backward, of its input, which nobody reads any more.
  void endInput(uint32_t block) const;
  // Before and after a backward, of the input. The one before it will be the next.
  Status fetchInput(uint32_t block, uint64_t rows) const;
  void dropInput(uint32_t block, uint64_t rows) const;
  // The blocks whose forwards have to run again, in their order, before the backward of `block`.
  BlockRange lostBefore(uint32_t block) const;

private:
  // Blocks before the head whose outputs are checkpoints; the embedding is one, the last layer is not.
  uint32_t count() const { return static_cast<uint32_t>(plan.places.size()); }
  // Where all that a block takes begins, for a program that gives gradients or for others.
  unsigned char *placeOf(uint32_t block, bool givesGradients) const;

  layout::CheckpointPlan plan;
  std::vector<layout::Border> borders; // what is in a place behind each block
  unsigned char *memory = nullptr;
  SpillFile *file = nullptr;
  MemoryCheck check;
};

} // namespace mebp
