// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "dialects/train/Train.h"

namespace mebp {

/// What a block's programs give each other (REMOTE ports), in bytes: runtime/train/remote.cpp lays the same out.
struct RemoteMemory {
  uint64_t kept = 0;    // of all blocks: what a backward reads again
  uint64_t passing = 0; // of one block: the rest, and all cotangents
  uint64_t whole = 0;   // of one block: all but cotangents, where no backward comes
};

/// Of the programs that generate text, or of the others.
RemoteMemory countRemote(mlir::ModuleOp module, bool generates);

/// The largest message between the halves of a split model: what programs of one block give each other at once, or what
/// flows. A command tells of every row.
uint64_t countLargestMessage(mlir::ModuleOp module, uint64_t tokens);

} // namespace mebp
