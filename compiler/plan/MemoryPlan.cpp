// SPDX-License-Identifier: Apache-2.0
//
// What a session holds is layout/'s to say, which the runtime lays it out by. Here is what that library cannot know:
// what programs hold at their fullest moment, and what a device has that places values itself.
#include "compiler/plan/MemoryPlan.h"

#include "compiler/plan/KeptValues.h"
#include "compiler/plan/Scratch.h"
#include "dialects/exec/Placement.h"
#include "format/alignment.h"
#include "format/devices.h"
#include "format/ports.h"
#include "format/split.h"
#include "layout/generation.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace mebp {

using layout::GradientUse;
using layout::Owner;

namespace {

/// A program, and a block that runs it.
struct UsedProgram {
  exec::ProgramOp program;
  train::BlockOp block;
  bool runs = true; // when a session trains or generates: logits of whole sequences are for whoever asks
};
using Programs = SmallVector<UsedProgram>;

/// Those that train, and those that generate text.
std::pair<Programs, Programs> separatePrograms(ModuleOp module) {
  llvm::MapVector<StringRef, train::BlockOp> training, generating;
  DenseSet<StringRef> asked;
  for (auto block : module.getOps<train::BlockOp>())
    for (NamedAttribute named : block.getPrograms()) {
      bool generates = format::generates(named.getName().strref());
      StringRef program = cast<FlatSymbolRefAttr>(named.getValue()).getValue();
      (generates ? generating : training).insert({program, block});
      if (named.getName() == format::logitsProgram)
        asked.insert(program);
    }
  std::pair<Programs, Programs> programs;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    StringRef name = program.getSymName();
    if (generating.contains(name))
      programs.second.push_back({program, generating.lookup(name)});
    else
      programs.first.push_back({program, training.lookup(name), !asked.contains(name)});
  }
  return programs;
}

/// Of the outputs of one kind, each in a place of its own.
uint64_t getOutputBytes(exec::ProgramOp program, llvm::function_ref<bool(train::PortAttr)> isWanted) {
  uint64_t bytes = 0;
  for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
    if (isWanted(program.getOutputPort(index)))
      bytes += format::alignUp(exec::sizeInBytes(value));
  return bytes;
}

/// Whether it goes to a sink; what a projector is found by does not.
bool isGradient(train::PortAttr port) {
  return port.getKind() == train::PortKind::Gradient && format::thinSuffixOf(std::string_view(port.getName())).empty();
}

/// What programs need while they run.
struct ProgramNeeds {
  exec::ProgramOp largest; // by its scratch
  Scratch scratch;         // of that one
  uint64_t live = 0;       // the most of scratch and gradients that one program of a step needs at one moment

  void add(exec::ProgramOp program, Scratch ofProgram, bool runsInStep, uint64_t gradients) {
    if (runsInStep)
      live = std::max(live, gradients + ofProgram.live);
    if (!largest || ofProgram.bytes > scratch.bytes) {
      largest = program;
      scratch = std::move(ofProgram);
    }
  }
};

/// By what a session computes: one that computes gradients has room for every program.
struct NeedsBySession {
  ProgramNeeds gradients, losses;

  const ProgramNeeds &of(const layout::Choice &choice) const { return choice.forwardOnly ? losses : gradients; }
};

/// `headBytes`: what the head takes and gives, beside its gradients.
NeedsBySession findProgramNeeds(ArrayRef<UsedProgram> programs, uint64_t headBytes,
                                const format::DeviceTraits &device) {
  NeedsBySession needs;
  for (auto [program, block, runs] : programs) {
    if (device.placesValues && !runs)
      continue;
    const Scratch scratch = findScratch(program, block, device);
    const auto ports = program.getOutputPorts().getAsRange<train::PortAttr>();
    const bool isForward = llvm::any_of(ports, [](train::PortAttr port) { return port.isFlow(); });
    const bool isHead = llvm::any_of(
        ports, [](train::PortAttr port) { return port.is(train::PortKind::Result, format::logProbabilitiesPort); });
    needs.gradients.add(program, scratch, isForward || program.givesGradients(),
                        getOutputBytes(program, isGradient) + (isHead ? headBytes : 0));
    if (!program.givesGradients())
      needs.losses.add(program, scratch, isForward || isHead, 0);
  }
  return needs;
}

uint64_t countHeadBytes(const layout::Facts &facts) {
  uint64_t bytes = 0;
  for (auto [port, ofPort] : llvm::zip(format::stepPorts, facts.model->stepPorts))
    bytes += port.ofHead ? ofPort : 0;
  return bytes;
}

/// What the values of a program that runs take at most on a device that places them itself: the plan's, or any other.
uint64_t countDeviceScratch(ArrayRef<UsedProgram> programs, const format::DeviceTraits &planned) {
  const format::DeviceTraits &device = planned.placesValues ? planned : *format::findDevice("mlx");
  uint64_t scratch = 0;
  for (auto [program, block, runs] : programs)
    if (runs)
      scratch = std::max(scratch, countScratch(program, block, device));
  return scratch;
}

std::string describeTrained(const layout::TrainablePlan &trained, const Options &options) {
  const char *filed = "in a file; of one tensor at once";
  if (!options.full.isChosen)
    return std::string(trained.adapters > 1 ? "the policy's adapter and the value's, " : "adapter, ") +
           (trained.areWeightsFiled ? filed : "f32");
  return std::string("the model's own, ") + (trained.areWeightsFiled ? filed : "as stored");
}

std::string describeGradients(GradientUse use) {
  return use == GradientUse::Sum    ? "of all blocks, summed over a step's sequences"
         : use == GradientUse::Keep ? "of all blocks"
                                    : "of one block, applied at once";
}

/// The parts that are there, for people.
class Buffers {
public:
  void add(std::string name, uint64_t bytes, std::string source) {
    if (bytes)
      buffers.push_back({std::move(name), bytes, std::move(source)});
  }
  std::vector<PlannedBuffer> take() { return std::move(buffers); }

private:
  std::vector<PlannedBuffer> buffers;
};

/// The parts of a session's memory.
std::vector<PlannedBuffer> listBuffers(const layout::Facts &facts, const MemoryPlan &plan, const Options &options,
                                       const ProgramNeeds &needs) {
  const Training &training = options.training;
  const layout::Choice &choice = plan.choice;
  const layout::Region &memory = plan.layout.memory;
  const layout::CheckpointPlan &flows = plan.layout.lane.checkpoints;
  const uint64_t layers = countTrainedLayers(facts), spacing = choice.spacing;
  const bool ofSome = spacing > 1;
  Buffers buffers;
  buffers.add("checkpoints", memory.of(Owner::Checkpoints),
              std::to_string(layout::placesOf(layers, spacing, layers == countLayers(facts))) +
                  (ofSome ? " of " + std::to_string(layers) : "") + " layers' inputs");
  buffers.add("cotangents", memory.of(Owner::Flows),
              choice.forwardOnly               ? "none: what flows forward"
              : flows.flow[0] == flows.flow[1] ? "of a layer's output, replaced by its input's"
                                               : "of a layer's input and output");
  buffers.add("kept", memory.of(Owner::Kept), describeKeptValues(facts));
  buffers.add("shared", memory.of(Owner::Shared), "of layers whose keys and values others read");
  buffers.add("remote", memory.of(Owner::Remote), "between layers and their adapters");
  buffers.add("trainables", memory.of(Owner::Trainables), describeTrained(plan.layout.trainables, options));
  buffers.add("optimizer", memory.of(Owner::OptimizerState),
              describeOptimizer(training) + (choice.spillsState ? ", of one tensor at once" : ""));
  buffers.add("subspaces", memory.of(Owner::Subspaces), "of one block, while they are found");
  buffers.add("wire", memory.of(Owner::Wire), "frames that the other half may not have yet");
  buffers.add("gradients", memory.of(Owner::Gradients), describeGradients(choice.gradients));
  exec::ProgramOp program = needs.largest; // whose methods are not const
  const std::string largest = program.getSymName().str();
  if (choice.placesValues)
    buffers.add("scratch", needs.scratch.bytes, largest + ", on the device");
  else
    buffers.add("scratch", memory.of(Owner::Scratch), largest);
  if (choice.placesValues)
    buffers.add("device", countDeviceCopies(facts, plan.layout), "checkpoints, cotangents and trainables there, too");
  buffers.add("workspace", memory.of(Owner::Workspace), std::to_string(training.threads) + " threads");
  buffers.add("tokens", memory.of(Owner::Tokens),
              choice.forwardOnly ? "ids, labels, log-probabilities" : "ids, labels");
  buffers.add("residency", memory.of(Owner::Residency), "which weights are in memory");
  return buffers.take();
}

/// The peak with each optimizer that can train what is compiled, and each sink of gradients
/// (runtime/train/gradients.h), the planned ones included.
std::vector<PlannedBuffer> listOtherPeaks(const layout::Facts &facts, const layout::Choice &planned,
                                          const NeedsBySession &needs) {
  std::vector<PlannedBuffer> peaks;
  const bool isProjected = llvm::any_of(
      facts.model->trainables, [](const layout::TrainableFacts &trainable) { return trainable.shape.rank > 0; });
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (!traits.forwardOnly &&
        (traits.projects != isProjected || (isProjected && traits.projector != planned.optimizer->projector)))
      continue; // its bundle is another
    layout::Choice choice = planned;
    choice.optimizer = &traits;
    choice.forwardOnly = traits.forwardOnly;
    choice.hasValueAdapter &= !traits.forwardOnly; // sequences have gradients
    auto add = [&](const std::string &use) {
      const uint64_t scratch = needs.of(choice).scratch.bytes;
      peaks.push_back({traits.name + use, countPeak(facts, planSession(facts, choice), choice, scratch), ""});
    };
    auto addUses = [&](const std::string &kept) {
      const GradientUse applied = choice.placesValues || facts.model->isSplit ? GradientUse::Keep : GradientUse::Apply;
      for (auto [use, label] : {std::pair(applied, ", gradients applied at once"),
                                {GradientUse::Keep, ", clipped or returned"},
                                {GradientUse::Sum, ", accumulated"}}) {
        choice.gradients = use;
        add(kept + label);
      }
      choice.gradients = applied;
    };
    choice.state = {};
    if (traits.forwardOnly) {
      add("");
      continue;
    }
    addUses("");
    if (format::takesMomentum(traits)) {
      choice.state = {true};
      addUses(" with momentum");
    }
    if (traits.projects) {
      choice.isBySvd = true;
      add(", subspaces by svd, gradients applied at once");
    }
  }
  return peaks;
}

/// What a session has once for each micro-batch under way (layout/layout.h), where there may be several.
uint64_t countInFlight(ModuleOp module, const layout::Facts &facts, layout::Choice choice) {
  auto half = module->getAttrOfType<DictionaryAttr>("mebp.half");
  if (!half || half.getAs<StringAttr>("place").getValue() != StringRef(format::devicePlace))
    return 0;
  choice.forwardOnly = false;
  choice.gradients = GradientUse::Sum;
  return planSession(facts, choice).lane.memory.total();
}

/// The caller's, of the last token of each batch item.
uint64_t countLogits(ModuleOp module, const Options &options) {
  auto vocabulary = module->getAttrOfType<IntegerAttr>("mebp.vocabulary");
  return vocabulary ? options.shape.batch * vocabulary.getInt() * sizeof(float) : 0;
}

std::string describeStates(const layout::Facts &facts, uint64_t positions) {
  uint64_t attending = 0, recurrent = 0;
  for (const auto &block : facts.blocks) {
    const auto carried = llvm::count_if(block->states, [](const layout::KeptState &state) { return state.isCarried; });
    recurrent += carried > 0;
    attending += block->states.size() > static_cast<size_t>(carried);
  }
  std::string text =
      "keys and values of " + std::to_string(attending) + " layers, " + std::to_string(positions) + " positions";
  return recurrent ? text + "; states of " + std::to_string(recurrent) + ", and a copy to go back to" : text;
}

void planGeneration(ModuleOp module, const layout::Facts &facts, ArrayRef<UsedProgram> programs, const Options &options,
                    MemoryPlan &plan) {
  if (programs.empty())
    return;
  layout::Choice choice = plan.choice;
  choice.generateOnly = choice.forwardOnly = true;
  choice.hasValueAdapter = false; // text is the policy's
  const layout::Layout session = planSession(facts, choice);
  const layout::GenerationPlan generation = layout::planGeneration(facts, choice.placesValues);
  const layout::Region &memory = generation.memory;
  const uint64_t logits = countLogits(module, options);
  const format::DeviceTraits &device = *format::findDevice(std::string_view(options.training.device));
  const uint64_t deviceScratch = countDeviceScratch(programs, device);
  uint64_t copies = countTrainables(facts);
  for (Owner owner : {Owner::Flows, Owner::Remote, Owner::States, Owner::Tokens})
    copies += memory.of(owner);

  Buffers buffers;
  buffers.add("state", memory.of(Owner::States), describeStates(facts, options.generation.positions));
  buffers.add("flow", memory.of(Owner::Flows), "of " + std::to_string(generation.rows) + " tokens at once");
  buffers.add("remote", memory.of(Owner::Remote), "between layers and their adapters");
  buffers.add("trainables", session.memory.of(Owner::Trainables), describeTrained(session.trainables, options));
  buffers.add("scratch", choice.placesValues ? deviceScratch : memory.of(Owner::Scratch), "");
  buffers.add("workspace", session.memory.of(Owner::Workspace), std::to_string(options.training.threads) + " threads");
  buffers.add("tokens", memory.of(Owner::Tokens), "ids");
  buffers.add("wire", session.memory.of(Owner::Wire), "frames that the other half may not have yet");
  buffers.add("logits", logits, "of the last token");
  buffers.add("residency", session.memory.of(Owner::Residency), "which weights are in memory");
  if (choice.placesValues)
    buffers.add("device", copies, "states, flow and trainables there, too");
  plan.generation = buffers.take();
  plan.generationPeakBytes = processBytes;
  for (const PlannedBuffer &buffer : plan.generation)
    plan.generationPeakBytes += buffer.bytes;
  plan.generationDeviceBytes = deviceScratch + copies;
}

} // namespace

LogicalResult verifyPlanned(ModuleOp module, EmitError emitError) {
  bool takesFlow = false;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    if (!exec::isPlaced(program))
      return emitError() << "program @" << program.getSymName() << " has values without a place";
    takesFlow |= program.takesFlow();
  }
  for (auto block : module.getOps<train::BlockOp>())
    for (NamedAttribute named : block.getPrograms())
      if (!module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue())))
        return emitError() << "block @" << block.getSymName() << " has " << named.getName() << " = " << named.getValue()
                           << ", which is no program";
  if (!takesFlow)
    return emitError() << "has no program that takes what a block gives: it is no model";
  return success();
}

uint64_t countBeside(ModuleOp module, const layout::Facts &facts, const Options &options) {
  if (!options.training.writes || options.generation.positions == 0)
    return 0;
  return layout::planGeneration(facts, getSessionChoice(options).placesValues).total() + countLogits(module, options);
}

MemoryPlan computeMemoryPlan(ModuleOp module, const layout::Facts &facts, const Options &options,
                             const Machine &machine) {
  const auto [trainingPrograms, generatingPrograms] = separatePrograms(module);
  const format::DeviceTraits &device = *format::findDevice(std::string_view(options.training.device));
  const NeedsBySession needsBySession = findProgramNeeds(trainingPrograms, countHeadBytes(facts), device);
  MemoryPlan plan;
  plan.choice = getSessionChoice(options);
  plan.layout = planSession(facts, plan.choice);
  const ProgramNeeds &needs = needsBySession.of(plan.choice);
  planGeneration(module, facts, generatingPrograms, options, plan);

  plan.calibrated = machine.rates.isCalibrated();
  plan.seconds =
      predictStep(module, options.shape.sequence, options.training.optimizer, machine)
          .total(plan.choice, countLayers(facts), countTrainedLayers(facts), plan.layout.file.written(), machine.rates);
  plan.buffers = listBuffers(facts, plan, options, needs);
  plan.otherPeaks = listOtherPeaks(facts, plan.choice, needsBySession);
  plan.atPeak = needs.scratch.atPeak;
  plan.besideBytes = countBeside(module, facts, options);
  if (plan.besideBytes)
    plan.buffers.push_back({writingBuffer, plan.besideBytes, "keys, values and logits of the text that it trains on"});
  plan.peakBytes = countPeak(facts, plan.layout, plan.choice, needs.scratch.bytes) + plan.besideBytes;
  plan.liveBytes = plan.peakBytes - needs.scratch.bytes - plan.layout.memory.of(Owner::Gradients) + needs.live;
  plan.inFlightBytes = countInFlight(module, facts, plan.choice);
  plan.deviceBytes = countDeviceScratch(trainingPrograms, device) + countDeviceCopies(facts, plan.layout);
  return plan;
}

} // namespace mebp
