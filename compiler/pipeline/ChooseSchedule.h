// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/CostModel.h"
#include "compiler/plan/MemoryPlan.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace mebp {

/// A schedule with what it costs.
struct Choice {
  Schedule schedule;
  uint64_t peakBytes = 0;
  double seconds = 0; // of a step, predicted
};

/// Finds schedules for one model. Every choice of chunk, loss tile and spacing is looked at, but only as many programs
/// are lowered as there are chunks and tiles: layers do not depend on the loss's tile, nor the head on the chunk.
class ScheduleChooser {
public:
  /// Lowers copies of `module`, which has been differentiated and has no schedule yet.
  static mlir::FailureOr<ScheduleChooser> create(mlir::ModuleOp module, const Options &options,
                                                 const PlanInputs &inputs);

  /// The fastest whose peak is at most `budget` bytes, of those that spill the least; nothing where there is none. It
  /// spills at most `most`.
  std::optional<Choice> chooseFastest(uint64_t budget, Spill most) const;
  /// The one with the lowest peak.
  Choice chooseSmallest(Spill most) const;
  /// Every schedule that chooseFastest gives for some budget, from the lowest peak to where more does not help.
  std::vector<Choice> listFrontier(Spill most) const;
  /// One of the plans that were looked at: what it says of trainables and optimizer holds for all.
  const MemoryPlan &getFixedPlan() const { return fixedPlan; }

private:
  /// One chunk size, or one tile of the loss: what the layers and what the head then need.
  struct Part {
    Schedule schedule;
    StepSeconds seconds;
    uint64_t layerScratch = 0, headScratch = 0;
    bool flowsInPlace = false; // which the chunk may decide
    uint64_t besideBytes = 0;  // likewise
  };

  mlir::FailureOr<Part> lower(mlir::ModuleOp module, const Options &options, const PlanInputs &inputs);
  Choice evaluate(const Part &chunk, const Part &tile, int64_t spacing, Spill spill) const;
  std::vector<Choice> listChoices(Spill spill) const;

  std::vector<Part> chunks, tiles;
  MemoryPlan fixedPlan;
  MachineRates rates;
};

} // namespace mebp
