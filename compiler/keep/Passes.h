// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "dialects/train/Train.h"
#include "mlir/Pass/Pass.h"

namespace mebp {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/keep/Passes.h.inc"
} // namespace mebp
