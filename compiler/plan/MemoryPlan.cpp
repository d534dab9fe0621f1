// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/MemoryPlan.h"

#include "compiler/plan/GradientMemory.h"
#include "compiler/plan/RemoteMemory.h"
#include "compiler/plan/Scratch.h"
#include "compiler/plan/StepPorts.h"
#include "dialects/exec/Placement.h"
#include "dialects/nn/Locations.h"
#include "dialects/nn/Parameters.h"
#include "format/alignment.h"
#include "format/kernels.h"
#include "format/optimizers.h"
#include "format/residency.h"
#include "format/split.h"
#include "mlir/IR/BuiltinOps.h"

#include <numeric>

using namespace mlir;

namespace mebp {

namespace {

// What mebp-run needs beside its arena: written pages of its libraries and its own, the stack, the parsed program.
// Measured as its peak less the arena's touched pages; test/e2e/test_memory.py holds the whole plan against the system.
constexpr uint64_t runtimeBytes = 1'000'000;

bool gives(exec::ProgramOp program, llvm::function_ref<bool(train::PortAttr)> isWanted) {
  return llvm::any_of(program.getOutputPorts().getAsRange<train::PortAttr>(), isWanted);
}

/// Of the outputs of one kind, each in a place of its own.
uint64_t getOutputBytes(exec::ProgramOp program, llvm::function_ref<bool(train::PortAttr)> isWanted) {
  uint64_t bytes = 0;
  for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
    if (isWanted(program.getOutputPort(index)))
      bytes += format::alignUp(exec::sizeInBytes(value));
  return bytes;
}

bool isFlow(train::PortAttr port) { return port.isFlow(); }
bool isLogProbability(train::PortAttr port) { return port.is(train::PortKind::Result, format::logProbabilitiesPort); }

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

/// All that passes from a block to the next one, where it is most.
uint64_t getCheckpointBytes(ArrayRef<UsedProgram> programs) {
  uint64_t most = 0;
  for (const UsedProgram &used : programs)
    most = std::max(most, getOutputBytes(used.program, isFlow));
  return most;
}

/// Whether what flows from block to block needs one buffer, or two that change places.
bool flowsInPlace(ArrayRef<UsedProgram> programs) {
  return llvm::all_of(programs, [](const UsedProgram &used) {
    exec::ProgramOp program = used.program;
    return program.getInPlace() || !program.takesFlow() ||
           !gives(program, [](train::PortAttr port) { return port.getKind() == train::PortKind::Flow; });
  });
}

/// What programs need while they run.
struct ProgramNeeds {
  exec::ProgramOp largest; // by its scratch
  Scratch scratch;         // of that one
  uint64_t live = 0;       // the most of scratch and gradients that one program of a step needs at one moment

  /// `beside`: gradients, and what the head takes and gives.
  void add(exec::ProgramOp program, const Scratch &ofProgram, bool runsInStep, uint64_t beside) {
    if (runsInStep)
      live = std::max(live, beside + ofProgram.live);
    if (largest && ofProgram.bytes <= scratch.bytes)
      return;
    largest = program;
    scratch = ofProgram;
  }
};

/// What finding subspaces needs (runtime/train/subspaces.cpp).
struct SubspaceNeeds {
  uint64_t once = 0;  // sketches and ranges of one block's gradients, and what finds a projector of one of them
  uint64_t sums = 0;  // those of all blocks, which are kept over micro-batches
  uint64_t bySvd = 0; // instead of `once`, with the gradient of one matrix
};

SubspaceNeeds countSubspaces(ModuleOp module) {
  SubspaceNeeds needs;
  uint64_t most = 0, workspace = 0, room = 0, svdWorkspace = 0;
  for (auto block : module.getOps<train::BlockOp>()) {
    uint64_t ofBlock = 0;
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>()) {
      const format::TrainedShape shape = getTrainedShape(module.lookupSymbol<nn::ParameterOp>(name.getValue()));
      if (shape.rank == 0)
        continue;
      const uint64_t width = sketchRank(shape);
      for (uint64_t side : {shape.rows, shape.columns})
        ofBlock += format::alignUp(side * width * sizeof(float));
      workspace = std::max(workspace, sketchWorkspaceBytes(shape));
      room = std::max(room, format::alignUp(shape.elements() * sizeof(float)));
      svdWorkspace = std::max(svdWorkspace, svdWorkspaceBytes(shape));
    }
    most = std::max(most, ofBlock);
    needs.sums += ofBlock;
  }
  needs.once = format::alignUp(most + workspace);
  needs.bySvd = format::alignUp(most + room + svdWorkspace);
  return needs;
}

/// As it is stored; an adapter is f32.
uint64_t getTrainedBytes(nn::ParameterOp parameter) {
  std::optional<format::WeightFormat> stored = parameter.getWeightFormat();
  format::Storage storage = stored ? format::storageOf(*stored) : format::Storage::F32;
  const format::TrainedShape shape = getTrainedShape(parameter);
  const uint64_t groups = format::alignUp(shape.rows * format::groupsOf(storage, shape.columns) * sizeof(uint16_t));
  return format::alignUp(shape.rows * format::rowBytesOf(storage, shape.columns)) + 2 * groups;
}

std::string describeTrained(const SessionMemory &memory, const Options &options) {
  const char *filed = "in a file; of one tensor at once";
  if (!options.full.isChosen)
    return std::string(memory.adapters > 1 ? "the policy's adapter and the value's, " : "adapter, ") +
           (memory.filesTrainables() ? filed : "f32");
  return std::string("the model's own, ") + (memory.filesTrainables() ? filed : "as stored");
}

/// By what a session computes: one that computes gradients has room for every program.
struct NeedsBySession {
  ProgramNeeds gradients, losses;
  GradientNeeds ofGradients;
  uint64_t ofHead = 0; // what the head takes and gives
  SmallVector<format::TrainedShape> trained;
  SubspaceNeeds subspaces;
};

NeedsBySession findProgramNeeds(ArrayRef<UsedProgram> programs, uint64_t headBytes,
                                const format::DeviceTraits &device) {
  NeedsBySession needs;
  needs.ofHead = headBytes;
  for (auto [program, block, runs] : programs) {
    if (device.placesValues && !runs)
      continue;
    const Scratch scratch = findScratch(program, block, device);
    bool givesGradients = program.givesGradients(), isForward = gives(program, isFlow);
    bool isHead = gives(program, isLogProbability);
    needs.gradients.add(program, scratch, isForward || givesGradients,
                        getOutputBytes(program, isGradient) + (isHead ? headBytes : 0));
    if (!givesGradients)
      needs.losses.add(program, scratch, isForward || isHead, 0);
  }
  return needs;
}

/// What a session needs with an optimizer, whose gradients are applied at once.
SessionMemory withOptimizer(SessionMemory memory, const format::OptimizerTraits &traits,
                            const format::StateOptions &state, const NeedsBySession &needs) {
  const ProgramNeeds &needed = traits.forwardOnly ? needs.losses : needs.gradients;
  memory.forwardOnly = traits.forwardOnly;
  memory.adapters = traits.forwardOnly ? 1 : memory.adapters; // sequences have gradients
  memory.keptState = memory.readState = memory.largestState = memory.updateScratch = 0;
  for (const format::TrainedShape &tensor : needs.trained) {
    uint64_t kept = format::keptBytes(traits, tensor, state, false);
    memory.readState += format::keptBytes(traits, tensor, state, true);
    memory.keptState += kept;
    memory.largestState = std::max(memory.largestState, kept);
    memory.updateScratch = std::max(memory.updateScratch, format::scratchBytes(traits, tensor));
  }
  memory.subspaces = traits.projects ? needs.subspaces.once : 0;
  memory.gradients = traits.forwardOnly ? 0 : needs.ofGradients.applied;
  memory.head = traits.forwardOnly ? needs.ofHead : 0;
  memory.scratch = needed.scratch.bytes;
  return memory;
}

/// With exact subspaces, by --galore-refresh svd.
SessionMemory withSvd(SessionMemory memory, const NeedsBySession &needs) {
  memory.subspaces = needs.subspaces.bySvd;
  return memory;
}

/// The peak with each optimizer that can train what is compiled, and each sink of gradients
/// (runtime/train/gradients.h), the planned ones included.
std::vector<PlannedBuffer> listOtherPeaks(const MemoryPlan &plan, const NeedsBySession &needs,
                                          format::Storage projector) {
  std::vector<PlannedBuffer> peaks;
  const bool isProjected =
      llvm::any_of(needs.trained, [](const format::TrainedShape &shape) { return shape.rank > 0; });
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (!traits.forwardOnly && (traits.projects != isProjected || (isProjected && traits.projector != projector)))
      continue; // its bundle is another
    const SessionMemory applied = withOptimizer(plan.memory, traits, {}, needs);
    auto add = [&](const char *use, SessionMemory memory, uint64_t gradients) {
      memory.gradients = gradients;
      peaks.push_back({traits.name + std::string(use), plan.processBytes + memory.total(), ""});
    };
    if (traits.forwardOnly) {
      add("", applied, 0);
      continue;
    }
    add(", gradients applied at once", applied, needs.ofGradients.applied);
    add(", clipped or returned", applied, needs.ofGradients.kept);
    add(", accumulated", applied, needs.ofGradients.summed);
    if (format::takesMomentum(traits)) {
      const SessionMemory kept = withOptimizer(plan.memory, traits, {true}, needs);
      add(" with momentum, gradients applied at once", kept, needs.ofGradients.applied);
      add(" with momentum, clipped or returned", kept, needs.ofGradients.kept);
      add(" with momentum, accumulated", kept, needs.ofGradients.summed);
    }
    if (traits.projects)
      add(", subspaces by svd, gradients applied at once", withSvd(applied, needs), needs.ofGradients.applied);
  }
  return peaks;
}

/// The parts of a session's memory that are there, for people.
std::vector<PlannedBuffer> listBuffers(ModuleOp module, const SessionMemory &memory, const Options &options,
                                       StringRef scratchOf) {
  const Training &training = options.training;
  std::vector<PlannedBuffer> buffers;
  auto add = [&](std::string name, uint64_t bytes, std::string source) {
    if (bytes)
      buffers.push_back({std::move(name), bytes, std::move(source)});
  };
  std::string kept = std::to_string(memory.countCheckpoints()), all = std::to_string(memory.layers);
  add("checkpoints", memory.checkpoints(), kept + (memory.spacing > 1 ? " of " + all : "") + " layers' inputs");
  add("cotangents", memory.flow(),
      memory.forwardOnly    ? "none: what flows forward"
      : memory.flowsInPlace ? "of a layer's output, replaced by its input's"
                            : "of a layer's input and output");
  const uint64_t values = memory.forwardOnly ? 0 : memory.values;
  add("kept", values, describeKeptValues(module));
  add("remote", memory.remote() - values, "between layers and their adapters");
  add("trainables", memory.trained(), describeTrained(memory, options));
  add("optimizer", memory.state(),
      describeOptimizer(training) + (memory.filesState() ? ", of one tensor at once" : ""));
  add("subspaces", memory.subspaces, "of one block, while they are found");
  add("wire", memory.wire, "frames that the other half may not have yet");
  const bool keeps = training.keeps || memory.onDevice || options.split.isChosen;
  add("gradients", memory.gradients,
      training.sums ? "of all blocks, summed over a step's sequences"
      : keeps       ? "of all blocks"
                    : "of one block, applied at once");
  add("scratch", memory.scratch, scratchOf.str() + (memory.onDevice ? ", on the device" : ""));
  add("device", memory.deviceCopies(), "checkpoints, cotangents and trainables there, too");
  add("workspace", memory.workspace, std::to_string(training.threads) + " threads");
  add("tokens", memory.tokens + memory.head, memory.head ? "ids, labels, log-probabilities" : "ids, labels");
  add("residency", memory.residency, "which weights are in memory");
  return buffers;
}

/// Of one block, each in a place of its own.
uint64_t getStateBytes(exec::ProgramOp program) {
  uint64_t bytes = 0;
  for (BlockArgument argument : program.getBody().front().getArguments())
    if (program.getInputPort(argument.getArgNumber()).getKind() == train::PortKind::State)
      bytes += format::alignUp(exec::sizeInBytes(argument));
  return bytes;
}

/// What a device with memory of its own holds where `memory` is what a session has: that of the plan, or any other.
template <typename Memory>
uint64_t countDeviceBytes(Memory memory, ArrayRef<UsedProgram> programs, const format::DeviceTraits &planned) {
  const format::DeviceTraits &device = planned.placesValues ? planned : *format::findDevice("mlx");
  memory.onDevice = true;
  uint64_t scratch = 0;
  for (auto [program, block, runs] : programs)
    if (runs)
      scratch = std::max(scratch, countScratch(program, block, device));
  return scratch + memory.deviceCopies();
}

/// What a session has once for each micro-batch under way (layout/layout.h), where there may be several.
uint64_t countInFlight(ModuleOp module, SessionMemory memory, const GradientNeeds &gradients) {
  auto half = module->getAttrOfType<DictionaryAttr>("mebp.half");
  if (!half || half.getAs<StringAttr>("place").getValue() != StringRef(format::devicePlace))
    return 0;
  memory.forwardOnly = false;
  return memory.checkpoints() + memory.flow() + memory.remote() + memory.tokens + memory.wire + gradients.scratch;
}

void planGeneration(ModuleOp module, ArrayRef<UsedProgram> programs, const Options &options,
                    const format::DeviceTraits &device, MemoryPlan &plan) {
  if (programs.empty())
    return;
  GenerationMemory memory;
  memory.onDevice = device.placesValues;
  SessionMemory trained = plan.memory;
  trained.adapters = 1; // text is the policy's
  memory.trainables = trained.trained();
  memory.workspace = plan.memory.workspace;
  memory.residency = plan.memory.residency;
  memory.wire = plan.memory.wire;
  memory.flow = (flowsInPlace(programs) ? 1 : 2) * getCheckpointBytes(programs);
  memory.remote = countRemote(module, true).whole;
  uint64_t layers = 0;
  for (auto block : module.getOps<train::BlockOp>())
    if (FlatSymbolRefAttr program = block.getProgram(format::decodeProgram))
      if (uint64_t bytes = getStateBytes(module.lookupSymbol<exec::ProgramOp>(program)))
        memory.state += bytes, ++layers;
  for (auto [program, block, runs] : programs)
    memory.scratch = std::max(memory.scratch, countScratch(program, block, device));
  uint64_t rows = countDecodeRows(options), batch = options.shape.batch;
  memory.tokens = 2 * format::alignUp(rows * sizeof(int32_t)); // and the numbers of rows whose logits are asked for
  if (options.split.isChosen)                                  // a server may forget them
    memory.tokens += format::alignUp(batch * options.generation.positions * sizeof(int32_t));
  if (auto vocabulary = module->getAttrOfType<IntegerAttr>("mebp.vocabulary"))
    memory.logits = batch * vocabulary.getInt() * sizeof(float);

  auto add = [&](std::string name, uint64_t bytes, std::string source) {
    if (bytes)
      plan.generation.push_back({std::move(name), bytes, std::move(source)});
  };
  add("state", memory.state,
      "keys and values of " + std::to_string(layers) + " layers, " + std::to_string(options.generation.positions) +
          " positions");
  add("flow", memory.flow, "of " + std::to_string(rows) + " tokens at once");
  add("remote", memory.remote, "between layers and their adapters");
  add("trainables", memory.trainables, describeTrained(trained, options));
  add("scratch", memory.scratch, "");
  add("workspace", memory.workspace, std::to_string(options.training.threads) + " threads");
  add("tokens", memory.tokens, "ids");
  add("wire", memory.wire, "frames that the other half may not have yet");
  add("logits", memory.logits, "of the last token");
  add("residency", memory.residency, "which weights are in memory");
  add("device", memory.deviceCopies(), "states, flow and trainables there, too");
  plan.generationPeakBytes = plan.processBytes + memory.total();
  if (options.training.writes) // what a session that trains has, too, is counted there
    plan.besideBytes = memory.total() - memory.trainables - memory.workspace;
  plan.generationDeviceBytes = countDeviceBytes(memory, programs, device);
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

RankedTensorType getCheckpointType(ModuleOp module) {
  for (auto program : module.getOps<exec::ProgramOp>())
    for (auto [index, argument] : llvm::enumerate(program.getBody().front().getArguments()))
      if (program.getInputPort(index).isFlow())
        return cast<RankedTensorType>(argument.getType());
  llvm_unreachable("every model has a head, which reads a checkpoint");
}

MemoryPlan computeMemoryPlan(ModuleOp module, const Options &options, const PlanInputs &inputs) {
  const Training &training = options.training;
  const auto [trainingPrograms, generatingPrograms] = separatePrograms(module);
  const format::DeviceTraits &device = *format::findDevice(std::string_view(training.device));
  const uint64_t tokens = options.shape.batch * options.shape.sequence;
  const auto [tokenBytes, headBytes] = countStepPorts(module, tokens);
  NeedsBySession needs = findProgramNeeds(trainingPrograms, headBytes, device);
  needs.subspaces = countSubspaces(module);
  needs.ofGradients = countGradients(module, headBytes, needs.subspaces.sums);
  // What a device or another machine may lose in the middle of a step is not applied before all is there.
  if (device.placesValues || options.split.isChosen)
    needs.ofGradients.applied = needs.ofGradients.kept;
  MemoryPlan plan;
  plan.processBytes = runtimeBytes;
  plan.calibrated = inputs.machine.rates.isCalibrated();

  SessionMemory &memory = plan.memory;
  memory.checkpoint = getCheckpointBytes(trainingPrograms);
  for (auto block : module.getOps<train::BlockOp>())
    memory.layers += block.getKind() == train::BlockKind::Layer && block.getProgram(format::forwardProgram);
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    needs.trained.push_back(getTrainedShape(parameter));
    memory.trainables += getTrainedBytes(parameter);
    memory.largestTrainable = std::max(memory.largestTrainable, getTrainedBytes(parameter));
  }
  memory.adapters = training.hasValueAdapter ? 2 : 1;
  memory.flowsInPlace = flowsInPlace(trainingPrograms);
  const RemoteMemory remote = countRemote(module, false);
  memory.remoteKept = remote.kept;
  memory.remotePassing = remote.passing;
  memory.remoteWhole = remote.whole;
  memory.values = std::accumulate(remote.values.begin(), remote.values.end(), uint64_t(0));
  if (options.split.isChosen)
    memory.wire = format::bytesOfKeptFrames(countLargestMessage(module, tokens));
  memory.spacing = options.schedule.spacing;
  memory.spill = options.schedule.spill;
  memory.tokens = tokenBytes;
  memory.onDevice = device.placesValues;
  memory.workspace = device.placesValues ? 0 : training.threads * format::workspaceBytes;
  if (training.residentLimit)
    memory.residency = format::alignUp(format::residencyBytes(inputs.weightsBytes));
  memory = withOptimizer(memory, *format::findOptimizer(std::string_view(training.optimizer)), {training.momentum != 0},
                         needs);
  if (training.sums || training.keeps)
    memory.gradients = training.sums ? needs.ofGradients.summed : needs.ofGradients.kept;
  planGeneration(module, generatingPrograms, options, device, plan);

  ProgramNeeds &largest = memory.forwardOnly ? needs.losses : needs.gradients;
  plan.buffers = listBuffers(module, memory, options, largest.largest.getSymName());
  plan.otherPeaks = listOtherPeaks(plan, needs, format::findOptimizer(training.optimizer)->projector);
  plan.atPeak = largest.scratch.atPeak;
  plan.stepSeconds = predictStep(module, options.shape.sequence, training.optimizer, inputs.machine);
  plan.seconds = plan.stepSeconds.total(memory, inputs.machine.rates);
  if (plan.besideBytes)
    plan.buffers.push_back({writingBuffer, plan.besideBytes, "keys, values and logits of the text that it trains on"});
  plan.peakBytes = plan.processBytes + memory.total() + plan.besideBytes;
  plan.liveBytes = plan.peakBytes - memory.scratch - memory.gradients + largest.live;
  plan.inFlightBytes = countInFlight(module, memory, needs.ofGradients);
  plan.deviceBytes = countDeviceBytes(memory, trainingPrograms, device);
  return plan;
}

} // namespace mebp
