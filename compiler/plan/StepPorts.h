// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace mebp {

/// In bytes, for so many tokens: what a step takes and gives, and of it what is of no use once the head has run.
struct StepPortBytes {
  uint64_t ofStep = 0, ofHead = 0;
};
StepPortBytes countStepPorts(mlir::ModuleOp module, uint64_t tokens);

} // namespace mebp
