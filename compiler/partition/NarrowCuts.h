// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mebp {

/// The ops from one narrow cut to the next, in order. Only `output` is used by later segments.
struct Segment {
  llvm::SmallVector<mlir::Operation *> ops;
  mlir::Value output;
};

/// Cuts a straight-line function wherever exactly one activation crosses. Parameters do not count: they are read where
/// they are needed; nor do the function's arguments where `again` reads them, ops that layers have for what they take
/// of these; nor what is shared, beyond its first reader. The last segment's output is what the function returns.
llvm::SmallVector<Segment> findSegments(mlir::func::FuncOp function,
                                        const llvm::DenseSet<mlir::Operation *> &again = {});

/// Where a run of segments repeats: `count` times `period` segments from `begin` on. count is 0 where nothing does.
struct Repetition {
  size_t begin = 0, period = 0, count = 0;
};

/// The repetition that covers the most segments, of those the one with the shortest period, and of those the last one:
/// what is before it may end as its periods do, as where later layers lack keys of their own. Segments are alike if
/// they have the same ops in the same order; attributes may differ (windowed and global attention).
Repetition findRepetition(llvm::ArrayRef<Segment> segments);

} // namespace mebp
