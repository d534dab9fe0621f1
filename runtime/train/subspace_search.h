// SPDX-License-Identifier: Apache-2.0
//
// Finds the subspaces that gradients are projected to (subspaces.h). Of one micro-batch, as the backward comes to each
// block; over several, in passes before the step that is projected to them. Nothing has been updated then, so that a
// failure leaves everything as it was.
#pragma once

#include "runtime/train/engine.h"

namespace mebp {

class SubspaceSearch {
public:
  explicit SubspaceSearch(Engine &engine) : engine(engine) {}

  // From the gradient of the batch that is there, before the backward of this block.
  Status refresh(Lane &own, uint32_t block);
  // From the gradient over several micro-batches, of this session or of others, too. They have to be taken again.
  Status run(const Batches &batches);

private:
  Status findExactly(const Batches &batches);
  Status passOver(const Batches &batches, const Subspaces::Sums &sums, const Lane::AtBlock &atBlock,
                  uint32_t last = Lane::noBlock);
  Status runBatch(const Lane::AtBlock &atBlock, uint32_t last);

  Engine &engine;
};

} // namespace mebp
