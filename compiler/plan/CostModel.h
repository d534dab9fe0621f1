// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/MachineRates.h"
#include "dialects/exec/Exec.h"
#include "layout/choice.h"
#include "mlir/IR/BuiltinOps.h"

namespace mebp {

/// What runs a plan, as far as its time depends on it.
struct Machine {
  MachineRates rates;
  int64_t threads;
};

/// What runs in a step, in predicted seconds: every kernel call, times the trips of the loops around it.
struct StepSeconds {
  double layersForward = 0, layersBackward = 0; // embed and layers
  std::vector<double> backwardByLayer;          // of the latter, those of layers
  double head = 0;                              // its objective
  double loss = 0;                              // the head's loss alone
  double update = 0;                            // by the optimizer

  /// Of a step of so many layers, and a backward of so many: those of the latter whose checkpoints a session that
  /// chooses so does not keep run forward again, what it has in a file is written and read.
  double total(const layout::Choice &choice, uint64_t layers, uint64_t trained, uint64_t fileBytes,
               const MachineRates &rates) const;
};

/// Of each kernel call of a program without loops, in order, where `block` runs it and the sequence is the longest.
/// `narrow`: as if activations were bf16.
std::vector<double> predictCalls(exec::ProgramOp program, train::BlockOp block, int64_t sequence, bool narrow,
                                 const Machine &machine);

/// Of a module of placed programs, with the longest sequence and the largest batch.
StepSeconds predictStep(mlir::ModuleOp module, int64_t sequence, llvm::StringRef optimizer, const Machine &machine);

} // namespace mebp
