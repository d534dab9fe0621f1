// SPDX-License-Identifier: Apache-2.0
//
// The planner as a solver: which schedule is the fastest within a budget.
//
// Terms: a schedule's peak is what no schedule changes, the checkpoints that its spacing keeps, and the scratch arena
// of the program that needs the most. Its time is predicted by the cost model; spacing adds the forward of every block
// whose checkpoint is not kept.
// 1. For each chunk size and for each tile of the loss, lower a copy of the module, and note arena and time of the
//    layers' programs or of the head's.
// 2. Look at every combination with every spacing. There are a few thousand, and each is a sum.
// 3. Take the fastest that fits, and of equally fast ones the one with the lowest peak.
#include "compiler/pipeline/ChooseSchedule.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace mebp {

namespace {

struct Tile {
  int64_t rows, columns;
};
constexpr Tile lossTiles[] = {{128, 2048}, {64, 2048}, {64, 1024}, {32, 1024}, {32, 512}, {16, 512}, {16, 128}};
constexpr int64_t smallestChunk = 16;

std::vector<int64_t> listChunks(int64_t sequence) {
  std::vector<int64_t> chunks = {0};
  for (int64_t chunk = smallestChunk; chunk < sequence; chunk *= 2)
    chunks.push_back(chunk);
  return chunks;
}

} // namespace

FailureOr<ScheduleChooser> ScheduleChooser::create(ModuleOp module, const PipelineOptions &pipeline,
                                                   const PlanOptions &plan) {
  ScheduleChooser chooser;
  auto lowerWith = [&](const Schedule &schedule, std::vector<Part> &parts) -> LogicalResult {
    PipelineOptions options = pipeline;
    options.schedule = schedule;
    FailureOr<Part> part = chooser.lower(module, options, plan);
    if (succeeded(part))
      parts.push_back(*part);
    return part;
  };
  Schedule schedule;
  for (int64_t chunk : listChunks(pipeline.sequence)) {
    schedule.chunk = chunk;
    if (failed(lowerWith(schedule, chooser.chunks)))
      return failure();
  }
  for (Tile tile : lossTiles) {
    schedule.lossRows = tile.rows;
    schedule.lossColumns = tile.columns;
    if (failed(lowerWith(schedule, chooser.tiles)))
      return failure();
  }
  return chooser;
}

FailureOr<ScheduleChooser::Part> ScheduleChooser::lower(ModuleOp module, const PipelineOptions &pipeline,
                                                        const PlanOptions &plan) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager passes(module.getContext());
  buildSchedulePipeline(passes, pipeline);
  if (failed(passes.run(*copy)))
    return failure();

  Part part;
  part.schedule = pipeline.schedule;
  part.seconds = predictStep(*copy, plan.sequence, plan.threads);
  blocks = 0;
  for (auto block : copy->getOps<train::BlockOp>()) {
    blocks += block.getKind() != train::BlockKind::Embed;
    uint64_t &arena = block.getKind() == train::BlockKind::Head ? part.headArena : part.layerArena;
    for (FlatSymbolRefAttr name : {block.getForwardAttr(), block.getBackwardAttr(), block.getObjectiveAttr(),
                                   block.getLossAttr(), block.getLogitsAttr()})
      if (name)
        arena = std::max(arena, copy->lookupSymbol<exec::ProgramOp>(name).getArenaBytes().value_or(0));
  }
  PlanOptions options = plan;
  options.schedule = pipeline.schedule;
  fixedPlan = computeMemoryPlan(*copy, options);
  otherBytes = fixedPlan.peakBytes - countCheckpoints(blocks, options.schedule.spacing) * fixedPlan.checkpointBytes -
               std::max(part.layerArena, part.headArena);
  return part;
}

std::vector<Choice> ScheduleChooser::listChoices() const {
  std::vector<Choice> choices;
  for (const Part &chunk : chunks)
    for (const Part &tile : tiles)
      for (uint64_t spacing = 1; spacing <= blocks; ++spacing) {
        Choice choice;
        choice.schedule = tile.schedule;
        choice.schedule.chunk = chunk.schedule.chunk;
        choice.schedule.spacing = static_cast<int64_t>(spacing);
        choice.peakBytes = otherBytes + countCheckpoints(blocks, spacing) * fixedPlan.checkpointBytes +
                           std::max(chunk.layerArena, tile.headArena);
        StepSeconds seconds = chunk.seconds;
        seconds.head = tile.seconds.head;
        choice.seconds = seconds.total(blocks, spacing);
        choices.push_back(choice);
      }
  return choices;
}

std::optional<Choice> ScheduleChooser::chooseFastest(uint64_t budget) const {
  std::optional<Choice> best;
  for (const Choice &choice : listChoices())
    if (choice.peakBytes <= budget &&
        (!best || std::tie(choice.seconds, choice.peakBytes) < std::tie(best->seconds, best->peakBytes)))
      best = choice;
  return best;
}

Choice ScheduleChooser::chooseSmallest() const {
  std::vector<Choice> choices = listChoices();
  return *std::min_element(choices.begin(), choices.end(), [](const Choice &left, const Choice &right) {
    return std::tie(left.peakBytes, left.seconds) < std::tie(right.peakBytes, right.seconds);
  });
}

} // namespace mebp
