// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/Schedule.h"
#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace mebp {

struct PipelineOptions {
  int64_t batch = 1;
  int64_t sequence = 256;
  int64_t loraRank = 8;
  double loraAlpha = 16.0;
  std::vector<std::string> loraTargets = {"all-linear"};
  bool narrowActivations = true; // bf16 instead of f32
  Schedule schedule;
};

/// The levels that a compilation can stop after, in their order.
enum class Level { Nn, Train, Exec };

/// From the imported graph to differentiated functions, or to nn ops alone. Reads as the data's way:
/// docs/architecture.md.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options, Level level);

/// From there to placed programs, by the schedule of the options; with Level::Train to functions with their loops.
void buildSchedulePipeline(mlir::OpPassManager &passes, const PipelineOptions &options, Level level = Level::Exec);

/// Registers every pass of the compiler by its name, for mebp-opt.
void registerAllPasses();

} // namespace mebp
