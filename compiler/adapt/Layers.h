// SPDX-License-Identifier: Apache-2.0
//
// Which layers are trained, by the numbers in the names of what belongs to them.
//
// A name's layer is its first part that is a number, as PEFT reads layers_to_transform: model.layers.3.mlp.up_proj is
// of layer 3. What has no number there (the head) is of no layer, and is trained only where its own name is given.
#pragma once

#include "compiler/Options.h"
#include "dialects/train/Train.h"

#include <string>

namespace mebp {

class Layers {
public:
  /// Finds those of the model. Fails where it has not all that are chosen.
  static mlir::FailureOr<Layers> choose(mlir::ModuleOp module, const LayerChoice &choice);

  /// Whether a target that matches `name` means it: it is of a chosen layer, or named itself.
  bool mayTrain(llvm::StringRef name, llvm::StringRef target) const;
  /// Fails where a target names a layer itself, beside a choice of them. `option`: what the targets were given by.
  mlir::LogicalResult checkTargets(mlir::ModuleOp module, llvm::ArrayRef<std::string> targets,
                                   llvm::StringRef option) const;

  bool areAll() const { return !isChosen; }
  /// " in layers 20 to 23", or nothing where all are chosen.
  std::string describe() const;
  /// Adds first_layer, layer_count and layers_pattern, where not all are chosen.
  void note(mlir::Builder &builder, mlir::NamedAttrList &attributes) const;

private:
  bool isChosen = false;
  int64_t first = 0, count = 0;
  std::string pattern; // what stands before a number: layers
};

} // namespace mebp
