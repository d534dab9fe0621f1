// SPDX-License-Identifier: Apache-2.0
//
// Finds subspaces in the gradient over several micro-batches (runtime/train/subspaces.h), before the step that is
// projected to them. Nothing has been updated yet, so that a failure here leaves everything as it was.
#include "runtime/train/session.h"

namespace mebp {

// Forwards and backwards of all micro-batches, whose gradients nobody takes.
Status Session::passOver(const Batches &batches, const Lane::AtBlock &atBlock, uint32_t last) {
  for (uint32_t i = 0; i < batches.count; ++i) {
    double ignored;
    if (Status status = takeAgain(lane(), batches, i); !status.ok())
      return status;
    if (lane().labels == 0)
      continue; // adds nothing
    if (Status status = lane().runForwardForBackward(); !status.ok())
      return status;
    if (Status status = lane().runObjective(objective, ignored); !status.ok())
      return status;
    if (Status status = lane().runBackward(nullptr, atBlock, last); !status.ok())
      return status;
  }
  return Status();
}

Status Session::findSubspaces(const Batches &batches) {
  if (subspaces.isExact())
    return findExactly(batches);
  for (uint32_t pass = 0; pass < Subspaces::passes; ++pass) {
    subspaces.beginPass(pass, trainables);
    auto addProduct = [&](uint32_t block) {
      auto multiply = [&](std::string_view program) { return lane().blocks.thinProduct(block, program, lane().live); };
      return subspaces.addProduct(pass, block, std::ref(multiply), trainables);
    };
    if (Status status = passOver(batches, std::ref(addProduct)); !status.ok())
      return status;
    if (Status status = subspaces.endPass(pass, trainables); !status.ok())
      return status;
  }
  return Status();
}

Status Session::findExactly(const Batches &batches) {
  for (uint32_t block = lane().blocks.head(); block-- > 0;)
    for (uint32_t group = 0; group < subspaces.groups(block); ++group) {
      subspaces.clearGradients(block, group, trainables);
      auto addGradients = [&](uint32_t at) {
        auto multiply = [&](std::string_view program) { return lane().blocks.thinProduct(at, program, lane().live); };
        return at == block ? subspaces.addGradients(block, group, std::ref(multiply), trainables) : Status();
      };
      if (Status status = passOver(batches, std::ref(addGradients), block); !status.ok())
        return status;
      if (Status status = subspaces.decompose(block, group, trainables); !status.ok())
        return status;
    }
  return Status();
}

} // namespace mebp
