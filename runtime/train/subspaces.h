// SPDX-License-Identifier: Apache-2.0
//
// Finds the subspaces that gradients are projected to (format/projection.h), those of a block just before its backward,
// and by its own programs. Nothing has the shape of a gradient meanwhile.
//
// A gradient over several micro-batches is nowhere at once, but its products with a thin matrix are sums over these. So
// each product is a pass over all micro-batches, and the thin matrices of all blocks are kept from pass to pass. Of a
// step that several sessions share, each pass ends with their sum (mebp_shared_sums), and all go on from the same
// one: so each finds the same subspaces, and no projector has to be sent.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "layout/subspaces.h"
#include "runtime/core/status.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/trainables.h"
#include "runtime/train/tree.h"

namespace mebp {

// Runs the block's program of this name, which multiplies the gradient of the batch that is there with a thin matrix. A
// std::ref of a lambda, so that it needs no memory of its own.
using ThinProduct = std::function<Status(std::string_view program)>;

// By an exact singular value decomposition, gradients are formed slice by slice from the same programs, by sketches
// that are rows of the unit matrix: of one matrix at once, or of as many of a block as fit in the room of the largest.
// Over micro-batches, each of these groups is a pass, since what a block's programs take is there in a pass alone.

class Subspaces {
public:
  void create(layout::SubspacePlan planned, uint64_t drawingSeed, const mebp_session_options &options,
              unsigned char *sessionMemory, const MemoryCheck &memoryCheck);

  float *sketchOf(uint32_t block, uint32_t trainable) const { return at(find(block, trainable).sketch); }
  float *rangeOf(uint32_t block, uint32_t trainable) const { return at(find(block, trainable).range); }

  // From the gradient of the batch that is there. The block's input and cotangents are those of its backward.
  Status refresh(uint32_t block, const ThinProduct &multiply, Trainables &trainables) const;

  // Which sums over micro-batches are under way: of a pass, or exactly, of a block's group.
  struct Sums {
    uint32_t pass = 0, block = 0, group = 0;
  };
  // Around what each micro-batch adds. Places in a tree, or always the first one's.
  void beginBatch(const Sums &sums, TreePlace inTree);
  void endBatch(const Sums &sums);

  // From the gradient over several micro-batches, exactly: for each block and each of its groups, clearGradients, then
  // addGradients for each micro-batch, and decompose.
  bool isExact() const { return plan.isExact; }
  uint32_t groups(uint32_t block) const { return plan.blocks[block].empty() ? 0 : plan.blocks[block].back().group + 1; }
  void clearGradients(uint32_t block, uint32_t group) const;
  Status addGradients(uint32_t block, uint32_t group, const ThinProduct &multiply, const Trainables &trainables) const;
  Status decompose(uint32_t block, uint32_t group, Trainables &trainables) const;

  // By sketches: `passes` times, a pass begins, takes the product of each block for
  // each micro-batch, and ends.
  static constexpr uint32_t passes = 4; // two products, and two of a power iteration
  void beginPass(uint32_t pass, const Trainables &trainables) const;
  Status addProduct(uint32_t pass, uint32_t block, const ThinProduct &multiply, const Trainables &trainables) const;
  Status endPass(uint32_t pass, Trainables &trainables) const;

private:
  Status refreshExactly(uint32_t block, const ThinProduct &multiply, Trainables &trainables) const;
  Status decomposeOwn(uint32_t block, uint32_t group, Trainables &trainables) const;
  // Of what other sessions have, too, where the caller sums over them.
  Status sumOverSessions(const layout::ThinPlaces &thin, float *sum, uint64_t count,
                         const Trainables &trainables) const;
  template <typename Visit> void visit(const Sums &sums, const Visit &visitor) const;
  const layout::ThinPlaces &find(uint32_t block, uint32_t trainable) const;
  // Of those of a block; what is found for others beside them is left.
  bool isAnyDue(uint32_t block, const Trainables &trainables) const;
  void draw(const layout::ThinPlaces &thin, const Trainables &trainables, float *sketch) const;
  // What becomes of a product once it is whole.
  Status finish(uint32_t pass, const layout::ThinPlaces &thin, float *sketch, float *range,
                Trainables &trainables) const;
  float *at(uint64_t offset) const { return reinterpret_cast<float *>(memory + plan.begin + offset); }
  // In the sum of this number, of those that are open.
  float *kept(uint64_t offset, uint32_t slot = 0) const {
    return reinterpret_cast<float *>(memory + plan.sumsBegin + slot * plan.sumBytes + offset);
  }
  float *wholeOf(const layout::ThinPlaces &thin, uint32_t slot = 0) const {
    return at(plan.room + slot * plan.sumBytes + thin.whole);
  }

  layout::SubspacePlan plan;
  const mebp_shared_sums *shared = nullptr;
  TreePlace place; // of the micro-batch that adds something
  MemoryCheck check;
  uint64_t seed = 0;
  unsigned char *memory = nullptr;
};

} // namespace mebp
