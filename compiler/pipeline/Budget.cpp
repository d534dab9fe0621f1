// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Budget.h"

#include "format/byte_size.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace mebp {

using format::formatMegabytes;

namespace {

std::string suggestSpilling(const ScheduleChooser &chooser, const Training &training) {
  if (isForwardOnly(training.optimizer))
    return "";
  const Spill more = training.mostSpill == Spill::None ? Spill::Checkpoints : Spill::All;
  const uint64_t written = chooser.getUsualLayout(more).file.written();
  if (written == chooser.getUsualLayout(training.mostSpill).file.written())
    return "";
  return std::string(", or --spill ") + nameOf(more) + ", which writes " + formatMegabytes(written) +
         " to disk in each step";
}

std::string suggestLessState(const layout::TrainablePlan &trained, const Training &training) {
  return training.momentum != 0 ? ", no --momentum" : trained.keptBytes > 0 ? ", --optimizer sgd" : "";
}

LogicalResult refuse(const ScheduleChooser &chooser, const Options &options, EmitError emitError) {
  Choice smallest = chooser.chooseSmallest(options.training.mostSpill);
  const layout::TrainablePlan trainables = chooser.getUsualLayout(Spill::None).trainables;
  std::string trained = options.full.isChosen ? ", fewer --train-targets"
                                              : ", a lower --lora-rank than " + std::to_string(options.lora.rank);
  if (trainables.weightBytes)
    trained += (options.full.isChosen ? " (what is trained takes " : " (the adapter takes ") +
               formatMegabytes(trainables.weightBytes) + ")";
  return emitError() << "this model needs at least " << formatMegabytes(smallest.peakBytes) << " ("
                     << describe(smallest) << "); give that much, or a shorter --seq-len than "
                     << options.shape.sequence << trained << suggestLessState(trainables, options.training)
                     << suggestSpilling(chooser, options.training);
}

} // namespace

FailureOr<Choice> chooseWithinBudget(ModuleOp module, const Options &options, const Machine &machine,
                                     EmitError emitError) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, options, machine);
  if (failed(chooser))
    return failure();
  std::optional<Choice> choice = chooser->chooseFastest(options.training.budget, options.training.mostSpill);
  if (!choice)
    return refuse(*chooser, options, emitError);
  if (choice->schedule.spill == Spill::None)
    return *choice;
  if (std::optional<Choice> other = chooser->chooseFastest(options.training.budget, Spill::None))
    choice->withoutSpill = WithoutSpill{other->seconds, other->peakBytes};
  else
    choice->withoutSpill = WithoutSpill{0, chooser->chooseSmallest(Spill::None).peakBytes};
  return *choice;
}

FailureOr<std::string> suggestTwice(ModuleOp module, const Options &options, const Machine &machine) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, options, machine, Search::KeptAlone);
  if (failed(chooser))
    return failure();
  constexpr double worthwhile = 0.97;
  Choice planned = chooser->getUsual();
  std::optional<Choice> faster = chooser->chooseFastest(2 * planned.peakBytes, Spill::None);
  if (!faster || faster->seconds > worthwhile * planned.seconds)
    return std::string();
  return llvm::formatv("with twice the memory a step takes {0:f2} of that: --memory-budget {1}MB",
                       faster->seconds / planned.seconds, 2 * planned.peakBytes / 1'000'000)
      .str();
}

FailureOr<std::vector<Choice>> findFrontier(ModuleOp module, const Options &options, const Machine &machine) {
  FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, options, machine);
  if (failed(chooser))
    return failure();
  return chooser->listFrontier(options.training.mostSpill);
}

FailureOr<LongestSequence> findLongestSequence(ModuleOp module, const Options &options, const Machine &machine,
                                               int64_t limit, EmitError emitError) {
  // A longer sequence never needs less, so halving finds the last one that fits. Of one token nothing is learned.
  LongestSequence longest;
  for (int64_t fits = 1, tooLong = limit + 1; fits + 1 < tooLong;) {
    Options trial = options;
    trial.shape.sequence = fits + (tooLong - fits) / 2;
    FailureOr<ScheduleChooser> chooser = ScheduleChooser::create(module, trial, machine, Search::NothingKept);
    if (failed(chooser))
      return failure();
    if (std::optional<Choice> choice = chooser->chooseFastest(options.training.budget, options.training.mostSpill)) {
      fits = trial.shape.sequence;
      longest = {fits, *choice};
    } else {
      tooLong = trial.shape.sequence;
      if (tooLong == 2)
        return refuse(*chooser, trial, emitError);
    }
  }
  return longest;
}

} // namespace mebp
