// SPDX-License-Identifier: Apache-2.0
//
// Where gradients are written, and when they are complete.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layout/gradients.h"
#include "runtime/core/status.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/tree.h"

namespace mebp {

// Takes each trainable's gradient once in a backward pass. A reduction over machines is one more sink.
class GradientSink {
public:
  virtual ~GradientSink() = default;
  virtual Status take(uint32_t trainable, float *gradient) = 0;
};

// A lane's; what trainables have of their own is the same for all lanes.
class Gradients {
public:
  // Whether a block gives any.
  bool has(uint32_t block) const { return block < plan.blocks.size() && !plan.blocks[block].empty(); }
  // Fresh memory is zero.
  void create(const format::Bundle &content, layout::GradientPlan planned, unsigned char *sessionMemory,
              unsigned char *laneMemory, bool isFresh, const MemoryCheck &memoryCheck);

  bool areKept() const { return plan.use != layout::GradientUse::Apply; }
  // Kept or not, whether each trainable's has memory of its own.
  bool haveMemory() const { return areKept() && std::count(plan.own.begin(), plan.own.end(), layout::noOffset) == 0; }
  // Which part of the scratch is the block's (layout/gradients.h).
  uint32_t slotOf(uint32_t block) const { return plan.slotOf(block); }
  // Where a block's program writes its GRADIENT output of this number, counted among these.
  float *outputOf(uint32_t block, uint32_t number) const { return placeOf(plan.blocks[block][number]); }
  // The memory that a trainable's gradient has of its own: each has, where all are kept, or else what is owned.
  float *of(uint32_t trainable) const { return at(plan.own[trainable]); }

  // Before the first micro-batch. Where each gradient is not a sum over these, there is nothing to clear.
  void clearSums();
  // In a tree (tree.h): before and after the micro-batch `index` of `count`; of one that is skipped, too. `hasSeveral`:
  // it may have any number of backwards, so that its sum is complete at its end alone.
  void beginInTree(uint32_t index, uint32_t count, bool hasSeveral = false);
  void endInTree(bool isSkipped);
  // After a block's program: hands the sink what is complete now.
  Status deliver(uint32_t block, GradientSink &sink);

  // Of a sum over micro-batches, a part that is multiplied later: whether it has memory of its own, and whether what is
  // delivered goes there.
  bool hasPending() const { return plan.pending != layout::noOffset; }
  void deliverToPending(bool isPending) { isToPending = isPending; }
  // The sum += factor pending, and that is zero then. Without one: the sum *= factor. In a tree, the micro-batch's sum.
  void settle(float factor);

private:
  float *at(uint64_t offset) const { return reinterpret_cast<float *>(memory + offset); }
  float *placeOf(const layout::Contribution &given) const {
    return given.isDirect ? of(given.trainable) : reinterpret_cast<float *>(scratch + given.offset);
  }

  const format::Bundle *bundle = nullptr;
  layout::GradientPlan plan;
  MemoryCheck check;
  unsigned char *memory = nullptr, *scratch = nullptr;
  uint64_t sumAt(uint32_t number) const { return number ? plan.further + (number - 1) * plan.ownBytes : 0; }
  // The sum below the newest += the newest, and so on; of one trainable, or of all.
  void mergeInTree(uint64_t begin, uint64_t count) const;

  uint64_t newest = 0; // where the sum begins that is added to, where nothing goes to pending
  bool isToPending = false;
  bool hasSeveralBackwards = false; // in a tree, the micro-batch
  TreePlace place;                  // in a tree, of the micro-batch
};

// Leaves each gradient, or sum over micro-batches, where it is until all are there.
class KeepSink final : public GradientSink {
public:
  Status take(uint32_t, float *) override { return Status(); }
};

} // namespace mebp
