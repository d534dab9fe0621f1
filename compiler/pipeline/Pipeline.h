// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "mlir/Pass/PassManager.h"

namespace mebp {

/// From the imported graph to differentiated functions, or to nn ops alone. Reads as the data's way:
/// docs/architecture.md.
void buildPipeline(mlir::OpPassManager &passes, const Options &options, Level level);

/// From there to placed programs, by the schedule of the options; with Level::Train to functions with their loops.
void buildSchedulePipeline(mlir::OpPassManager &passes, const Options &options, Level level = Level::Exec);

/// Registers every pass of the compiler by its name, for mebp-opt.
void registerAllPasses();

} // namespace mebp
