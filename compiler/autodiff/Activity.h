// SPDX-License-Identifier: Apache-2.0
//
// What depends on a parameter that is trained, and so has a cotangent that somebody asks for.
//
// Terms: an argument of a block's function is active if it is trained, or is passed in and depends on something that is
// trained; any value is active that depends on an active argument. What flows into a block is active behind the lowest
// block with a trained parameter, and the head's input in any case: the runtime scales its cotangent.
#pragma once

#include "dialects/train/Train.h"
#include "llvm/ADT/StringSet.h"

namespace mebp {

/// Goes through the functions of a module's blocks in the order in which they run.
class Activity {
public:
  explicit Activity(mlir::ModuleOp module) : lowest(train::findLowestTrained(module)) {}

  /// Of a function's arguments, those that are active, in their order. Notes what it passes on of which something
  /// depends on them.
  llvm::SmallBitVector enter(train::BlockOp block, mlir::func::FuncOp function);
  /// Before the first function of each block.
  void beginBlock() {
    remote.clear();
    ++blocks;
  }

private:
  bool isActive(train::BlockOp block, mlir::func::FuncOp function, unsigned argument) const;

  unsigned lowest, blocks = 0;      // blocks that have begun
  llvm::StringSet<> remote, shared; // that are active: of the block's programs, of all blocks
};

} // namespace mebp
