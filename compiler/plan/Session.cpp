// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/Session.h"

#include "format/devices.h"
#include "format/kernels.h"
#include "llvm/ADT/STLExtras.h"

namespace mebp {

using layout::GradientUse;
using layout::Owner;

layout::Choice getSessionChoice(const Options &options) {
  const Training &training = options.training;
  const bool placesValues = format::findDevice(std::string_view(training.device))->placesValues;
  layout::Choice choice;
  choice.optimizer = format::findOptimizer(std::string_view(training.optimizer));
  choice.state = {training.momentum != 0};
  // What a device or another machine may lose in the middle of a step is not applied before all is there.
  const bool keeps = training.keeps || placesValues || options.split.isChosen;
  choice.gradients = training.sums ? GradientUse::Sum : keeps ? GradientUse::Keep : GradientUse::Apply;
  choice.forwardOnly = choice.optimizer->forwardOnly;
  choice.hasValueAdapter = training.hasValueAdapter && !choice.forwardOnly;
  choice.limitsResidency = training.residentLimit > 0;
  choice.placesValues = placesValues;
  choice.workspace = placesValues ? 0 : training.threads * format::workspaceBytes;
  return withSchedule(choice, options.schedule);
}

layout::Choice withSchedule(layout::Choice choice, const Schedule &schedule) {
  choice.spillsCheckpoints = schedule.spill != Spill::None;
  choice.spillsState = schedule.spill == Spill::All;
  choice.spacing = static_cast<uint32_t>(schedule.spacing);
  return choice;
}

uint64_t countTrainables(const layout::Facts &facts) {
  uint64_t bytes = 0;
  for (const layout::TrainableFacts &trainable : facts.model->trainables)
    bytes += format::alignUp(trainable.bytes);
  return bytes;
}

uint64_t countDeviceCopies(const layout::Facts &facts, const layout::Layout &layout) {
  uint64_t bytes = countTrainables(facts) + layout.trainables.readBytes;
  for (Owner owner : {Owner::Checkpoints, Owner::Flows, Owner::Remote, Owner::Kept, Owner::Tokens})
    bytes += layout.memory.of(owner);
  return bytes;
}

uint64_t countPeak(const layout::Facts &facts, const layout::Layout &layout, const layout::Choice &choice,
                   uint64_t deviceScratch) {
  return processBytes + layout.total() + (choice.placesValues ? deviceScratch + countDeviceCopies(facts, layout) : 0);
}

static uint64_t countFrom(const layout::Facts &facts, uint32_t firstLayer) {
  return llvm::count_if(llvm::ArrayRef(facts.blocks).drop_front(1 + firstLayer).drop_back(),
                        [](const auto &block) { return block->runsHere; });
}

uint64_t countLayers(const layout::Facts &facts) { return countFrom(facts, 0); }

uint64_t countTrainedLayers(const layout::Facts &facts) { return countFrom(facts, facts.layersBelow()); }

} // namespace mebp
