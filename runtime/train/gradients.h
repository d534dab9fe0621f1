// SPDX-License-Identifier: Apache-2.0
//
// Where gradients are written and when they are complete. A gradient that is applied at once only needs memory while
// its block is run; one that is kept or summed, or that comes from several blocks, has memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"
#include "mebp/mebp.h"
#include "runtime/core/status.h"
#include "runtime/train/placer.h"

namespace mebp {

// What a session does with gradients.
enum class GradientUse {
  Apply, // each at once
  Keep,  // all, until the step's end
  Sum,   // over micro-batches, until the step's end
};

// One GRADIENT output of one block.
struct Contribution {
  uint32_t trainable = 0;
  bool isDirect = false; // the program writes it to the trainable's own memory, else to
  uint64_t offset = 0;   // scratch
  bool add = false;      // onto the trainable's own memory, which holds what came before
  bool last = false;     // of this trainable in a backward pass
};

struct GradientPlan {
  GradientUse use = GradientUse::Apply;
  uint64_t begin = 0;                            // in the session's memory: what trainables have of their own
  uint64_t scratch = 0;                          // in a lane's: what they have while a block is run
  std::vector<std::vector<Contribution>> blocks; // for each block, in the order of its program's GRADIENT outputs
  std::vector<uint64_t> own;                     // for each trainable its own memory from `begin` on, or noOffset
  uint64_t ownBytes = 0;                         // of all those
  uint64_t pending = 0;                          // as much, of the sum whose factor is not known yet; or noOffset
  uint64_t head = 0;                             // for a while, in a lane's memory: what the head takes and gives
  uint64_t bytes = 0, scratchBytes = 0;          // from `begin` and from `scratch` on
};

// Takes options as followPlan gives them. The head's step ports need `headBytes`, until the backwards begin. The memory
// that gradients have of their own, from the plan's beginning on, is at least `ownBytes`.
GradientPlan planGradients(const format::Bundle &bundle, const mebp_session_options &options, uint64_t headBytes,
                           uint64_t ownBytes, Placer &memory, Placer &lane);

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
  void create(const format::Bundle &content, GradientPlan planned, unsigned char *sessionMemory,
              unsigned char *laneMemory, bool isFresh);

  bool areKept() const { return plan.use != GradientUse::Apply; }
  // Where a block's program writes its GRADIENT output of this number, counted among these.
  float *outputOf(uint32_t block, uint32_t number) const { return placeOf(plan.blocks[block][number]); }
  // The memory that a trainable's gradient has of its own: each has, where all are kept.
  float *of(uint32_t trainable) const { return at(plan.own[trainable]); }

  // Before the first micro-batch. Where each gradient is not a sum over these, there is nothing to clear.
  void clearSums();
  // After a block's program: hands the sink what is complete now.
  Status deliver(uint32_t block, GradientSink &sink);

  // Of a sum over micro-batches, a part that is multiplied later: whether it has memory of its own, and whether what is
  // delivered goes there.
  bool hasPending() const { return plan.pending != noOffset; }
  void deliverToPending(bool isPending) { ownBegin = isPending ? plan.pending : 0; }
  // The sum += factor pending, and that is zero then. Without one: the sum *= factor.
  void settle(float factor);

private:
  float *at(uint64_t offset) const { return reinterpret_cast<float *>(memory + offset); }
  float *placeOf(const Contribution &given) const {
    return given.isDirect ? of(given.trainable) : reinterpret_cast<float *>(scratch + given.offset);
  }

  const format::Bundle *bundle = nullptr;
  GradientPlan plan;
  unsigned char *memory = nullptr, *scratch = nullptr;
  uint64_t ownBegin = 0; // of the sum that is added to
};

// Leaves each gradient, or sum over micro-batches, where it is until all are there.
class KeepSink final : public GradientSink {
public:
  Status take(uint32_t, float *) override { return Status(); }
};

} // namespace mebp
