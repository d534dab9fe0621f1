// SPDX-License-Identifier: Apache-2.0
//
// Adapters y = W x + B v, where v is made of u = A x by what is trained. A and B are drawn at random and frozen.
//
// Terms: u and v are of every row of tokens. They are all that the rest of a layer and what is trained know of each
// other, so either may be in another place.
// 1. `compress`, a clone of the layer's forward as it was, gives u. What is adapted in one layer must not depend on
//    each other, so that all its u leave at once. With shareA, linear layers that read one value have one A and u.
// 2. `adapt` makes v of u: the one part that is an adapter's own.
// 3. The forward takes v from outside: y = linear(x, W addend linear(v, B)).
// A and B are drawn by format/random.h, each from a stream of its own, so that whoever knows the seed has the same.
#pragma once

#include "dialects/train/Train.h"
#include "format/adapters.h"
#include "mlir/IR/Builders.h"

namespace mebp {

struct RemoteSettings {
  mlir::ArrayRef<std::string> targets;
  int64_t rankDown, rankUp; // columns of u, and of v
  bool shareA;
  int64_t firstLayer, lastLayer; // that are adapted; a negative last one: the model's
  uint64_t seed;                 // of A and B
};

/// What an adapter has between A and B.
struct Middle {
  mlir::SmallVector<int64_t> shape; // of what is trained, which begins with zeros
  /// v of u and of what is trained.
  mlir::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value u, mlir::Value trained)> build;
};

/// Adapts the linear layers that the targets name; how many those are.
mlir::FailureOr<unsigned> addRemoteAdapters(mlir::ModuleOp module, const format::AdapterTraits &traits,
                                            const RemoteSettings &settings, const Middle &middle);

} // namespace mebp
