// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"

namespace mebp {

/// What a backward computes again of a layer's forward, and which values would save how much of it.
class Recomputation {
public:
  /// How long an op of the backward takes, in seconds: an attribute that whoever knows a machine sets. Without one, no
  /// time.
  static constexpr llvm::StringLiteral secondsAttribute = "mebp.seconds";

  /// `narrow`: what need not be exact takes two bytes.
  Recomputation(mlir::func::FuncOp forward, mlir::func::FuncOp backward, bool narrow);

  /// A value in the forward, and in the backward.
  struct Pair {
    mlir::Value forward, backward;
  };
  /// What is kept, and what that comes to.
  struct Kept {
    llvm::SmallVector<Pair> values; // in the forward's order
    double seconds = 0;             // of what is still computed again
    double rowBytes = 0;            // of what is kept of each token
  };
  /// The least sum of seconds and `price` times bytes of a row; with an infinite price, nothing.
  Kept keep(double price) const;

private:
  void match(mlir::func::FuncOp forward, mlir::func::FuncOp backward);
  double getRowBytes(mlir::Value value) const;

  bool narrow;
  llvm::DenseMap<mlir::Value, mlir::Value> matched; // of the backward: in the forward
  llvm::SmallVector<mlir::Operation *> ops;         // of the backward that the forward has, too
  llvm::SetVector<mlir::Value> needed;              // of their results, by the rest of the backward
};

} // namespace mebp
