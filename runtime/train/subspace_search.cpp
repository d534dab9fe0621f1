// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/subspace_search.h"

namespace mebp {

Status SubspaceSearch::refresh(Lane &own, uint32_t block) {
  auto multiply = [&](std::string_view program) { return own.blocks.thinProduct(block, program, own.live); };
  return engine.subspaces.refresh(block, std::ref(multiply), engine.trainables);
}

// Forwards and backwards of all micro-batches, whose gradients nobody takes.
Status SubspaceSearch::passOver(const Batches &batches, const Subspaces::Sums &sums, const Lane::AtBlock &atBlock,
                                uint32_t last) {
  for (uint32_t i = 0; i < batches.count; ++i) {
    engine.subspaces.beginBatch(sums, engine.settings.tree_batches ? TreePlace::of(i, batches.count) : TreePlace());
    Status status = engine.lane().take(batches[i]);
    if (status.ok() && engine.lane().labels) // another adds nothing
      status = runBatch(atBlock, last);
    engine.subspaces.endBatch(sums);
    if (!status.ok())
      return status;
  }
  return Status();
}

Status SubspaceSearch::runBatch(const Lane::AtBlock &atBlock, uint32_t last) {
  double ignored;
  if (Status status = engine.lane().runForwardForBackward(); !status.ok())
    return status;
  if (Status status = engine.lane().runObjective(engine.objective, ignored); !status.ok())
    return status;
  return engine.lane().runBackward(nullptr, atBlock, last);
}

Status SubspaceSearch::run(const Batches &batches) {
  if (engine.subspaces.isExact())
    return findExactly(batches);
  for (uint32_t pass = 0; pass < Subspaces::passes; ++pass) {
    engine.subspaces.beginPass(pass, engine.trainables);
    auto addProduct = [&](uint32_t block) {
      auto multiply = [&](std::string_view program) {
        return engine.lane().blocks.thinProduct(block, program, engine.lane().live);
      };
      return engine.subspaces.addProduct(pass, block, std::ref(multiply), engine.trainables);
    };
    if (Status status = passOver(batches, {pass}, std::ref(addProduct)); !status.ok())
      return status;
    if (Status status = engine.subspaces.endPass(pass, engine.trainables); !status.ok())
      return status;
  }
  return Status();
}

Status SubspaceSearch::findExactly(const Batches &batches) {
  for (uint32_t block = engine.lane().blocks.head(); block-- > 0;)
    for (uint32_t group = 0; group < engine.subspaces.groups(block); ++group) {
      engine.subspaces.clearGradients(block, group);
      auto addGradients = [&](uint32_t at) {
        auto multiply = [&](std::string_view program) {
          return engine.lane().blocks.thinProduct(at, program, engine.lane().live);
        };
        return at == block ? engine.subspaces.addGradients(block, group, std::ref(multiply), engine.trainables)
                           : Status();
      };
      if (Status status = passOver(batches, {0, block, group}, std::ref(addGradients), block); !status.ok())
        return status;
      if (Status status = engine.subspaces.decompose(block, group, engine.trainables); !status.ok())
        return status;
    }
  return Status();
}

} // namespace mebp
