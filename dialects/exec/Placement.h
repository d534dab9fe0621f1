// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"

namespace mebp::exec {

/// The bytes that a value lies in: from `begin` to `end` of one of the program's inputs or outputs or of its arena.
struct Span {
  Memory memory = Memory::Arena;
  int64_t number = 0; // of the input or output
  int64_t begin = 0, end = 0;

  bool overlaps(const Span &other) const {
    return memory == other.memory && number == other.number && begin < other.end && other.begin < end;
  }
  bool operator==(const Span &other) const {
    return memory == other.memory && number == other.number && begin == other.begin && end == other.end;
  }
};

/// Where a value of a placed program lies; of a slice, what it looks into. Nothing where the op that makes it has no
/// place.
std::optional<Span> locate(mlir::Value value);

/// Whether an input is the block's state, which its program writes in place.
bool isState(mlir::Value value);

/// Whether every kernel's result and every exec.empty has a place.
bool isPlaced(ProgramOp program);

/// Runs the program on a shadow of its memory: fails, with a diagnostic, where what is read has been overwritten.
llvm::LogicalResult verifyPlacement(ProgramOp program);

/// Whether a placed program may leave what flows on where what flowed in was: its one output that is an activation or a
/// cotangent, in the memory of its cotangent or, where it takes none, of its activation. It then computes the same, and
/// a runtime may choose.
bool mayRunInPlace(ProgramOp program);

} // namespace mebp::exec
