// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "dialects/train/Train.h"

namespace mebp {

/// What a block's programs give each other (REMOTE and KEPT ports), in bytes: layout/remote.cpp lays the same
/// out.
struct RemoteMemory {
  uint64_t kept = 0;            // of all blocks: what a backward reads again
  uint64_t passing = 0;         // of one block: the rest, and all cotangents
  uint64_t whole = 0;           // of one block: all but cotangents, where no backward comes
  std::vector<uint64_t> values; // of each layer, what is in `kept` by KEPT ports
};

/// Of the programs that generate text, or of the others.
RemoteMemory countRemote(mlir::ModuleOp module, bool generates);

/// Which values layers keep for their backward, for people: "of 3 layers: mlp.gate_proj, mlp.up_proj; of 21:
/// mlp.up_proj"; empty where none does.
std::string describeKeptValues(mlir::ModuleOp module);

/// The largest message between the halves of a split model: what programs of one block give each other at once, or what
/// flows. A command tells of every row.
uint64_t countLargestMessage(mlir::ModuleOp module, uint64_t tokens);

} // namespace mebp
