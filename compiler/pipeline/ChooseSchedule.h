// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "compiler/plan/CostModel.h"
#include "compiler/plan/MemoryPlan.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>

namespace mebp {

/// The fastest plan that writes nothing to a disk.
struct WithoutSpill {
  double seconds = 0; // 0: none fits
  uint64_t peakBytes = 0;
};

/// A schedule with what it costs.
struct Choice {
  Schedule schedule;
  uint64_t peakBytes = 0;
  uint64_t valueBytes = 0;                  // of these, what layers keep for their backward
  std::string keptValues;                   // what that is, of the layers that keep the most
  double seconds = 0;                       // of a step, predicted
  uint64_t fileBytes = 0;                   // that it writes to a disk
  uint64_t layers = 0;                      // that have an input for the backward, in memory or on the disk
  bool areAllLayers = true;                 // that there are
  std::optional<WithoutSpill> withoutSpill; // within the same budget, where it chose to spill
};

/// What the choice does, in words.
std::string describe(const Choice &choice);

/// What a search looks at, beside the loss's tiles: all there is; nothing that layers keep, which the smallest plan
/// does not; nothing but that, with whole sequences.
enum class Search { All, NothingKept, KeptAlone };

/// Finds schedules for one model. Every choice of chunk, loss tile, spacing and kept values is looked at, but only as
/// many programs are lowered as there are chunks with prices of memory, and tiles: layers do not depend on the loss's
/// tile, nor the head on the chunk.
class ScheduleChooser {
public:
  /// Lowers copies of `module`, which has been differentiated and has no schedule yet, and marks what its backwards
  /// compute again with how long that takes.
  static mlir::FailureOr<ScheduleChooser> create(mlir::ModuleOp module, const Options &options, const Machine &machine,
                                                 Search search = Search::All);

  /// The fastest whose peak is at most `budget` bytes, and of those that take up to 5 % longer the fastest that
  /// spills nothing; nothing where none fits. It spills at most `most`.
  std::optional<Choice> chooseFastest(uint64_t budget, Spill most) const;
  /// The one that a plan without a budget has.
  Choice getUsual() const { return evaluate(chunks.front(), tiles.front(), 1, Spill::None); }
  /// The one with the lowest peak.
  Choice chooseSmallest(Spill most) const;
  /// Every schedule that chooseFastest gives for some budget, from the lowest peak to where more does not help: a
  /// budget gets the last one that fits it.
  std::vector<Choice> listFrontier(Spill most) const;
  /// What a session has by the plan without a budget, if it spills so: what that says of trainables, of the optimizer
  /// and of the file holds for all.
  layout::Layout getUsualLayout(Spill spill) const;

private:
  /// One chunk size with one price of memory in all layers, or one tile of the loss: what the layers and what the head
  /// then need.
  struct Part {
    Schedule schedule;
    layout::Facts facts;
    std::string keptValues; // that layers keep
    StepSeconds seconds;
    uint64_t layerScratch = 0, headScratch = 0; // of a device that places values
    uint64_t besideBytes = 0;                   // of generating
  };

  mlir::FailureOr<Part> lower(mlir::ModuleOp module, const Options &options, const Machine &machine);
  Choice evaluate(const Part &chunk, const Part &tile, int64_t spacing, Spill spill) const;
  /// Some layers keep by the one's price, the others by the other's.
  static Part join(const Part &first, const Part &rest, int64_t layers);
  void addKept(std::vector<Choice> &choices) const;
  const std::vector<Choice> &listChoices(Spill spill) const;

  mutable std::map<Spill, std::vector<Choice>> listed; // once
  std::vector<Part> chunks, tiles;
  std::vector<std::vector<Part>> kept; // of each chunk size, by price, descending: the first keeps nothing
  layout::Choice session;              // but for the schedule
  MachineRates rates;
};

} // namespace mebp
