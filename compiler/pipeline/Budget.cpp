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

llvm::Error refuse(const ScheduleChooser &chooser, const PipelineOptions &pipeline, const PlanOptions &plan) {
  Choice smallest = chooser.chooseSmallest();
  std::string adapter;
  for (const PlannedBuffer &buffer : chooser.getFixedPlan().buffers)
    if (buffer.name == "trainables")
      adapter = " (the adapter takes " + formatMegabytes(buffer.bytes) + ")";
  return makeError("the least that this model trains in is " + formatMegabytes(smallest.peakBytes) + " (" +
                   describeSchedule(smallest.schedule) + "); give that much, a shorter --seq-len than " +
                   Twine(pipeline.sequence) + ", a lower --lora-rank than " + Twine(pipeline.loraRank) + adapter +
                   (plan.optimizer == "sgd" ? "" : ", or --optimizer sgd"));
}

} // namespace

llvm::Expected<Choice> chooseWithinBudget(ModuleOp module, const PipelineOptions &pipeline, const PlanOptions &plan) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, pipeline, plan);
  if (failed(chooser))
    return makeSilentError();
  if (std::optional<Choice> choice = chooser->chooseFastest(plan.budget))
    return *choice;
  return refuse(*chooser, pipeline, plan);
}

llvm::Expected<LongestSequence> findLongestSequence(ModuleOp module, const PipelineOptions &pipeline,
                                                    const PlanOptions &plan, int64_t limit) {
  // A longer sequence never needs less, so halving finds the last one that fits.
  LongestSequence longest;
  for (int64_t fits = 0, tooLong = limit + 1; fits + 1 < tooLong;) {
    PipelineOptions trial = pipeline;
    PlanOptions trialPlan = plan;
    trial.sequence = trialPlan.sequence = fits + (tooLong - fits) / 2;
    FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, trial, trialPlan);
    if (failed(chooser))
      return makeSilentError();
    if (std::optional<Choice> choice = chooser->chooseFastest(plan.budget)) {
      fits = trial.sequence;
      longest = {fits, *choice};
    } else {
      tooLong = trial.sequence;
      if (tooLong == 1)
        return refuse(*chooser, trial, trialPlan);
    }
  }
  return longest;
}

uint64_t getMachineMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

} // namespace mebp
