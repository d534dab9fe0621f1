// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"

namespace mebp::exec {

/// When each value of a program is alive, and which values hand their memory on to which.
class Lifetimes {
public:
  explicit Lifetimes(ProgramOp program);

  /// Positions count ops in the order in which they run; a loop has one where it begins and one where it ends.
  struct Interval {
    unsigned begin = 0;
    unsigned end = 0; // the last op that reads the value: inclusive
    bool intersects(Interval other) const { return begin <= other.end && other.begin <= end; }
  };

  /// A value's successor in the same memory: `from` is read for the last time where `to` begins.
  struct Handover {
    mlir::Value from, to;
    bool required; // the values must share memory; otherwise they may
  };

  llvm::ArrayRef<mlir::Value> getValues() const { return values; }
  Interval get(mlir::Value value) const { return intervals.lookup(value); }
  llvm::ArrayRef<Handover> getHandovers() const { return handovers; }
  bool mayHandOver(mlir::Value from, mlir::Value to) const { return handoverPairs.contains({from, to}); }

private:
  void countPositions(mlir::Block &block);
  void extend(mlir::Value value, mlir::Operation *user, unsigned position);
  void addHandover(mlir::Value from, mlir::Value to, bool required);

  llvm::SmallVector<mlir::Value> values;
  llvm::DenseMap<mlir::Value, Interval> intervals;
  llvm::DenseMap<mlir::Operation *, Interval> positions; // begin == end but for loops
  llvm::SmallVector<Handover> handovers;
  llvm::DenseSet<std::pair<mlir::Value, mlir::Value>> handoverPairs;
  unsigned nextPosition = 1; // inputs begin at 0
};

} // namespace mebp::exec
