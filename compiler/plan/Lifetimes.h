// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"

namespace mebp {

/// When each value of a program is alive, and which values hand their memory on to which.
class Lifetimes {
public:
  explicit Lifetimes(exec::ProgramOp program);

  /// Positions count ops in the order in which they run; a loop has one where it begins and one where it ends.
  struct Interval {
    unsigned begin = 0;
    unsigned end = 0; // the last op that reads the value: inclusive
    bool intersects(Interval other) const { return begin <= other.end && other.begin <= end; }
  };

  /// A value's successor in the same memory: `from` is read for the last time where `to` begins. Or, of a back edge,
  /// the argument of a loop and what a trip yields, which the next trip finds there.
  struct Handover {
    mlir::Value from, to;
    mlir::OpOperand *use; // of the op that takes the memory over; of a back edge, what is yielded
    bool required;        // the values must share memory; otherwise they may
  };

  llvm::ArrayRef<mlir::Value> getValues() const { return values; }
  Interval get(mlir::Value value) const { return intervals.lookup(value); }
  /// In the program's order; those of a loop after its body's.
  llvm::ArrayRef<Handover> getHandovers() const { return handovers; }
  /// Whether both may lie in one place: they are not alive at once, or the one hands its memory to the other.
  bool mayShare(mlir::Value left, mlir::Value right) const;

private:
  void countPositions(mlir::Block &block);
  void extend(mlir::Value value, mlir::Operation *user, unsigned position);
  void addHandover(mlir::OpOperand &use, mlir::Value to, bool required);

  llvm::SmallVector<mlir::Value> values;
  llvm::DenseMap<mlir::Value, Interval> intervals;
  llvm::DenseMap<mlir::Operation *, Interval> positions; // begin == end but for loops
  llvm::SmallVector<Handover> handovers;
  llvm::DenseSet<std::pair<mlir::Value, mlir::Value>> handoverPairs;
  unsigned nextPosition = 1; // inputs begin at 0
};

} // namespace mebp
