// SPDX-License-Identifier: Apache-2.0
//
// Which linear layers get an adapter, and how its factors become parameters.
//
// A linear layer is called by its weight's name without ".weight". A target matches that name or its end, as in PEFT;
// all-linear matches every linear layer but the head. A target that matches nothing is an error.
#pragma once

#include "dialects/train/Train.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/UniqueVector.h"

#include <string>

namespace mebp {

struct AdaptedLinear {
  nn::LinearOp linear;
  std::string layer;   // model.layers.0.self_attn.q_proj
  std::string ownName; // as the block's own function calls it: self_attn.q_proj
};

class Targets {
public:
  /// `option` is what the targets were given by.
  Targets(mlir::ArrayRef<std::string> targets, mlir::StringRef option)
      : targets(targets), option(option), matched(targets.size(), false) {}

  /// Those of one block that the targets name.
  mlir::SmallVector<AdaptedLinear> find(train::BlockOp block, mlir::func::FuncOp function);
  /// Leaves all of one block alone.
  void leave(train::BlockOp block, mlir::func::FuncOp function);
  /// After all blocks: whether each target has matched.
  mlir::LogicalResult checkAll(mlir::ModuleOp module) const;
  /// As PEFT adapts whatever ends like these names: full names where another layer ends so and was left alone.
  mlir::ArrayAttr getModules(mlir::MLIRContext *context) const;

private:
  mlir::SmallVector<AdaptedLinear> collect(train::BlockOp block, mlir::func::FuncOp function);
  bool isTarget(mlir::StringRef layer, bool isHead);

  mlir::ArrayRef<std::string> targets;
  mlir::StringRef option;
  std::vector<bool> matched;
  llvm::UniqueVector<std::string> available; // ends of names
  llvm::StringSet<> untouched;               // likewise
  std::vector<std::string> adapted;          // layers
};

/// A factor: a parameter of the module, of the block under its own name, and of the function as its last argument.
mlir::Value addFactor(train::BlockOp block, mlir::func::FuncOp function, nn::ParameterOp parameter,
                      mlir::StringRef ownName);
/// Declares a parameter before the block.
nn::ParameterOp declareFactor(train::BlockOp block, mlir::StringRef name, mlir::RankedTensorType type,
                              mlir::Location location);

} // namespace mebp
