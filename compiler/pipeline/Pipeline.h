// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  int64_t chunk = 0;             // 0: layers are not chunked
  int64_t lossRows = 128;
  int64_t lossColumns = 2048;
};

/// The levels that a compilation can stop after, in their order.
enum class Level { Nn, Train, Exec };

/// From the imported graph to placed programs, up to `level`. Reads as the data's way: docs/architecture.md.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options, Level level);

/// Registers every pass of the compiler by its name, for mebp-opt.
void registerAllPasses();

} // namespace mebp
