// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/train/Train.h"
#include "mlir/IR/Builders.h"

namespace mebp {

/// A loop under construction: carried values by name of what they stand for, and clones of straight-line code on the
/// rows of the current trip.
class LoopBuilder {
public:
  /// Begins with no carried values; `carry` them, then `begin`, `clone`, and `end`.
  LoopBuilder(mlir::OpBuilder &builder, mlir::Location location, train::Domain domain, int64_t size,
              mlir::Value over = {})
      : builder(builder), location(location), domain(domain), size(size), over(over) {}

  /// Carries `init` from trip to trip on behalf of `key`, any value of the original code.
  void carry(mlir::Value key, mlir::Value init);
  /// Carries a tensor like `like` that every trip updates its rows of.
  void carryRows(mlir::Value like);
  /// That for each of what the original code leaves that has rows of tokens.
  void carryTokenResults(mlir::ValueRange values);

  void begin();

  /// The rows of this trip of a value from outside, or the clone of one from inside; parameters are themselves.
  mlir::Value lookup(mlir::Value original);
  void map(mlir::Value original, mlir::Value inLoop) { mapping[original] = inLoop; }
  /// Clones a token-wise op; its results are then found by lookup.
  mlir::Operation *clone(mlir::Operation *op);
  /// Lets the clone add each of the op's sums over rows to what is carried for it.
  void addSums(mlir::Operation *op, mlir::Operation *copy);

  bool carries(mlir::Value key) const { return current.count(key); }
  mlir::Value getCarried(mlir::Value key) const { return current.lookup(key); }
  void setCarried(mlir::Value key, mlir::Value value) { current[key] = value; }
  /// Writes the rows of this trip into the tensor carried for `key`.
  void updateRows(mlir::Value key, mlir::Value rows);
  /// That for each of what carryTokenResults carries.
  void updateTokenResults(mlir::ValueRange values);
  mlir::Value getTrip() { return loop.getTrip(); }

  /// Ends the body. getResult then gives what the loop leaves for a key.
  void end();
  mlir::Value getResult(mlir::Value key) const { return results.lookup(key); }

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
  train::Domain domain;
  int64_t size;
  mlir::Value over;
  llvm::SmallVector<mlir::Value> keys, inits;
  train::LoopOp loop;
  llvm::DenseMap<mlir::Value, mlir::Value> mapping, current, results;
};

} // namespace mebp
