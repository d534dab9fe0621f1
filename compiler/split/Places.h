// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"
#include "format/split.h"

namespace mebp {

/// "device" where nothing is said.
std::string_view getPlace(train::BlockOp block, llvm::StringRef program);

/// Of the layers that are on the server: block `begin` up to `end`. Empty where none is.
struct ServedBlocks {
  unsigned begin = 0, end = 0;
  bool isEmpty() const { return begin == end; }
};
ServedBlocks findServedBlocks(mlir::ModuleOp module);

/// Leaves of a planned module what one place runs, and notes which half it is of what (its `mebp.half`).
mlir::LogicalResult keepHalf(mlir::ModuleOp module, std::string_view place);

} // namespace mebp
