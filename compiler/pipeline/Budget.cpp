// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Budget.h"

#include "compiler/pipeline/ByteSize.h"

#include <unistd.h>

using namespace mlir;

namespace mebp {

namespace {

llvm::Error makeError(const Twine &message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), message); }

// The passes have said what was wrong.
llvm::Error makeSilentError() { return makeError(""); }

std::string suggestSpilling(const ScheduleChooser &chooser, const PlanOptions &plan) {
  if (isForwardOnly(plan.optimizer))
    return "";
  Spill more = plan.mostSpill == Spill::None ? Spill::Checkpoints : Spill::All;
  const MemoryPlan &fixed = chooser.getFixedPlan();
  if (getFileBytes(fixed, more) == getFileBytes(fixed, plan.mostSpill))
    return "";
  return std::string(", or --spill ") + nameOf(more) + ", which writes " + formatMegabytes(getFileBytes(fixed, more)) +
         " to disk in each step";
}

llvm::Error refuse(const ScheduleChooser &chooser, const PipelineOptions &pipeline, const PlanOptions &plan) {
  Choice smallest = chooser.chooseSmallest(plan.mostSpill);
  std::string adapter;
  for (const PlannedBuffer &buffer : chooser.getFixedPlan().buffers)
    if (buffer.name == "trainables")
      adapter = " (the adapter takes " + formatMegabytes(buffer.bytes) + ")";
  return makeError("the least that this model trains in is " + formatMegabytes(smallest.peakBytes) + " (" +
                   describeSchedule(smallest.schedule) + "); give that much, or a shorter --seq-len than " +
                   Twine(pipeline.sequence) + ", a lower --lora-rank than " + Twine(pipeline.loraRank) + adapter +
                   (plan.optimizer == "adamw" ? ", --optimizer sgd" : "") + suggestSpilling(chooser, plan));
}

} // namespace

llvm::Expected<Choice> chooseWithinBudget(ModuleOp module, const PipelineOptions &pipeline, const PlanOptions &plan) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, pipeline, plan);
  if (failed(chooser))
    return makeSilentError();
  if (std::optional<Choice> choice = chooser->chooseFastest(plan.budget, plan.mostSpill))
    return *choice;
  return refuse(*chooser, pipeline, plan);
}

llvm::Expected<LongestSequence> findLongestSequence(ModuleOp module, const PipelineOptions &pipeline,
                                                    const PlanOptions &plan, int64_t limit) {
  // A longer sequence never needs less, so halving finds the last one that fits. Of one token nothing is learned.
  LongestSequence longest;
  for (int64_t fits = 1, tooLong = limit + 1; fits + 1 < tooLong;) {
    PipelineOptions trial = pipeline;
    PlanOptions trialPlan = plan;
    trial.sequence = trialPlan.sequence = fits + (tooLong - fits) / 2;
    FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, trial, trialPlan);
    if (failed(chooser))
      return makeSilentError();
    if (std::optional<Choice> choice = chooser->chooseFastest(plan.budget, plan.mostSpill)) {
      fits = trial.sequence;
      longest = {fits, *choice};
    } else {
      tooLong = trial.sequence;
      if (tooLong == 2)
        return refuse(*chooser, trial, trialPlan);
    }
  }
  return longest;
}

uint64_t getMachineMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

} // namespace mebp
