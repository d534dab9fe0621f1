// SPDX-License-Identifier: Apache-2.0
//
// Which linear layers get an adapter, and how its factors become parameters.
//
// A linear layer is called by its weight's name without ".weight". A target matches that name or its end, as in PEFT;
// all-linear matches every linear layer but the head. A target that matches nothing is an error.
//
// Experts' weights, and most routers', are no linear layer's: PEFT calls them target_parameters, and names a factor by
// the module that has them. A target is the end of such a parameter's name with its module (experts.down_proj), or the
// end of its layer's (gate). Where several parameters of a module are adapted, PEFT wraps the module in one adapter
// after the other, and all but the last lie in the `base_layer` of the next.
#pragma once

#include "compiler/adapt/Layers.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"
#include "dialects/train/Train.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/UniqueVector.h"

#include <string>

namespace mebp {

struct AdaptedLinear {
  nn::LinearOp linear;        // or
  nn::ExpertLinearOp experts; // one for each slot's expert
  std::string layer;          // whose factors they are: model.layers.0.self_attn.q_proj
  std::string ownName;        // as the block's own function calls it: self_attn.q_proj
  std::string weight;         // model.layers.0.self_attn.q_proj.weight
  bool isParameter = false;   // of no linear layer of the model's code
};

class Targets {
public:
  /// `option` is what the targets were given by. `parameters`: whether they may name what is no linear layer's.
  Targets(mlir::ArrayRef<std::string> targets, mlir::StringRef option, bool parameters = false, Layers layers = {})
      : targets(targets), option(option), parameters(parameters), layers(std::move(layers)),
        matched(targets.size(), false) {}

  /// Those of one block that the targets name.
  mlir::SmallVector<AdaptedLinear> find(train::BlockOp block, mlir::func::FuncOp function);
  /// Leaves all of one block alone.
  void leave(train::BlockOp block, mlir::func::FuncOp function);
  /// After all blocks: whether each target has matched.
  mlir::LogicalResult checkAll(mlir::ModuleOp module) const;
  /// As PEFT adapts whatever ends like these names, in the layers that it is told: full names where another one ends so
  /// and was left alone.
  mlir::ArrayAttr getModules(mlir::MLIRContext *context) const;
  /// Likewise its target_parameters.
  mlir::ArrayAttr getParameters(mlir::MLIRContext *context) const;

private:
  mlir::SmallVector<AdaptedLinear> collect(train::BlockOp block, mlir::func::FuncOp function);
  void leave(const AdaptedLinear &linear);
  /// Whether a target names it, and whether it is to be adapted: its layer is trained, too.
  bool isNamed(const AdaptedLinear &linear, bool isHead, mlir::StringRef target) const;
  bool isTarget(const AdaptedLinear &linear, bool isHead);

  mlir::ArrayRef<std::string> targets;
  mlir::StringRef option;
  bool parameters;
  Layers layers;
  std::vector<bool> matched;
  llvm::UniqueVector<std::string> available;           // ends of names
  llvm::StringSet<> untouched, untouchedParameters;    // likewise
  std::vector<std::string> adapted, adaptedParameters; // layers, and weights
};

/// A factor: a parameter of the module, of the block under its own name, and of the function as its last argument.
mlir::Value addFactor(train::BlockOp block, mlir::func::FuncOp function, nn::ParameterOp parameter,
                      mlir::StringRef ownName);
/// Declares a parameter before the block.
nn::ParameterOp declareFactor(train::BlockOp block, mlir::StringRef name, mlir::RankedTensorType type,
                              mlir::Location location);

} // namespace mebp
