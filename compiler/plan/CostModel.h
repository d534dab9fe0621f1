// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"

namespace mebp {

/// What one thread of a machine does in a second. The defaults are of no machine in particular: plans made with them
/// are estimates, good enough to tell a slower schedule from a faster one.
struct MachineRates {
  double flops = 1.5e11;        // of products of matrices
  double expansions = 4e9;      // weights unpacked for one call of a kernel
  double elements = 1.5e9;      // of a value that a kernel reads or writes, where it does little with each
  double secondsPerCall = 2e-6; // to start the threads
  double fileBytes = 5e8;       // written to a file or read from it, by however many threads
};

/// What runs in a step, in predicted seconds: every kernel call's arithmetic, the weights that it unpacks and the
/// values that it writes, times the trips of the loops around it.
struct StepSeconds {
  double layersForward = 0, layersBackward = 0; // embed and layers
  double head = 0;                              // its objective
  double loss = 0;                              // the head's loss alone

  /// With the forwards of `layers` run again in the segments that do not keep their checkpoints.
  double total(uint64_t layers, uint64_t spacing) const;
  /// With `fileBytes` written and read again instead.
  double totalSpilled(uint64_t fileBytes, const MachineRates &rates = {}) const;
  /// Two losses instead of a gradient.
  double totalForwardOnly() const { return 2 * (layersForward + loss); }
};

/// Of a module of placed programs, with the longest sequence and the largest batch, on `threads` threads.
StepSeconds predictStep(mlir::ModuleOp module, int64_t sequence, int64_t threads, const MachineRates &rates = {});

} // namespace mebp
