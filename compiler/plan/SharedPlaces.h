// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/Lifetimes.h"

namespace mebp {

/// Which values of a program lie in one place. At first each is alone.
class SharedPlaces {
public:
  explicit SharedPlaces(const Lifetimes &lifetimes);

  /// Puts the places of two values together, if all that is in them may share one. Else returns two, of the left place
  /// and of the right, that may not.
  std::optional<std::pair<mlir::Value, mlir::Value>> unite(mlir::Value left, mlir::Value right);
  /// The values in the place of this one.
  llvm::ArrayRef<mlir::Value> getValues(mlir::Value value) const { return members[leaders.lookup(value)]; }
  /// One number for all of them.
  unsigned getNumber(mlir::Value value) const { return leaders.lookup(value); }

private:
  const Lifetimes &lifetimes;
  llvm::DenseMap<mlir::Value, unsigned> leaders;
  llvm::SmallVector<llvm::SmallVector<mlir::Value, 2>> members; // by number; empty once it is another's
};

} // namespace mebp
