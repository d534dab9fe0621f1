// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/MachineRates.h"
#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"

namespace mebp {

/// What runs a plan, as far as its time depends on it.
struct Machine {
  MachineRates rates;
  int64_t threads;
  std::string weights, embeddingWeights; // how matrices, and tables and the head, are stored
};

/// What runs in a step, in predicted seconds: every kernel call, times the trips of the loops around it.
struct StepSeconds {
  double layersForward = 0, layersBackward = 0; // embed and layers
  double head = 0;                              // its objective
  double loss = 0;                              // the head's loss alone
  double update = 0;                            // by the optimizer

  /// With the forwards of `layers` run again in the segments that do not keep their checkpoints.
  double total(uint64_t layers, uint64_t spacing) const;
  /// With `fileBytes` written and read again instead.
  double totalSpilled(uint64_t fileBytes, const MachineRates &rates) const;
  /// Two losses instead of a gradient.
  double totalForwardOnly() const { return 2 * (layersForward + loss) + update; }
};

/// Of a module of placed programs, with the longest sequence and the largest batch.
StepSeconds predictStep(mlir::ModuleOp module, int64_t sequence, llvm::StringRef optimizer, const Machine &machine);

} // namespace mebp
