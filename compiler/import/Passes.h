// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mebp {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/import/Passes.h.inc"
} // namespace mebp
