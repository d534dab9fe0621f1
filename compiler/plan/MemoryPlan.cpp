// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/MemoryPlan.h"

#include "compiler/plan/Lifetimes.h"
#include "dialects/exec/Placement.h"
#include "dialects/nn/Locations.h"
#include "format/alignment.h"
#include "format/kernels.h"
#include "format/optimizers.h"
#include "format/residency.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace mebp {

namespace {

// What mebp-run needs beside its arena: written pages of its libraries and its own, the stack, the parsed program.
// Measured as its peak less the arena's touched pages; test/e2e/test_memory.py holds the whole plan against the system.
constexpr uint64_t runtimeBytes = 1'000'000;

/// The values of the scratch arena where it is fullest, by their places: values in one place count once.
struct ArenaPeak {
  DenseMap<int64_t, Value> values;
  uint64_t bytes = 0;
};

ArenaPeak findArenaPeak(exec::ProgramOp program) {
  Lifetimes lifetimes(program);
  SmallVector<std::pair<Value, int64_t>> inArena;
  unsigned last = 0;
  for (Value value : lifetimes.getValues()) {
    std::optional<exec::Span> place = exec::locate(value);
    if (place->memory != exec::Memory::Arena || value.getDefiningOp<train::SliceOp>())
      continue;
    inArena.push_back({value, place->begin});
    last = std::max(last, lifetimes.get(value).end);
  }
  ArenaPeak peak;
  for (unsigned position = 0; position <= last; ++position) {
    ArenaPeak live;
    for (auto [value, offset] : inArena) {
      auto interval = lifetimes.get(value);
      if (position < interval.begin || position > interval.end)
        continue;
      if (live.values.try_emplace(offset, value).second)
        live.bytes += exec::sizeInBytes(value);
    }
    if (live.bytes > peak.bytes)
      peak = std::move(live);
  }
  return peak;
}

std::vector<PlannedBuffer> describe(const ArenaPeak &peak) {
  std::vector<PlannedBuffer> buffers;
  for (auto [offset, value] : peak.values) {
    Operation *definition = value.getDefiningOp();
    auto kernel = dyn_cast_or_null<exec::KernelOp>(definition);
    std::string name = kernel       ? kernel.getKernel().str()
                       : definition ? definition->getName().stripDialect().str()
                                    : "carried";
    buffers.push_back({name, exec::sizeInBytes(value), nn::describeLocation(value.getLoc())});
  }
  llvm::sort(buffers, [](const PlannedBuffer &a, const PlannedBuffer &b) {
    return std::tie(b.bytes, a.name, a.source) < std::tie(a.bytes, b.name, b.source);
  });
  return buffers;
}

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
bool isGradient(train::PortAttr port) { return port.getKind() == train::PortKind::Gradient; }
bool isLogProbability(train::PortAttr port) { return port.is(train::PortKind::Result, format::logProbabilitiesPort); }

using Programs = SmallVector<exec::ProgramOp>;

/// Those that train, and those that generate text.
std::pair<Programs, Programs> separatePrograms(ModuleOp module) {
  DenseSet<StringRef> generating;
  for (auto block : module.getOps<train::BlockOp>())
    for (std::string_view name : {format::decodeProgram, format::decodeLogitsProgram})
      if (FlatSymbolRefAttr program = block.getProgram(name))
        generating.insert(program.getValue());
  std::pair<Programs, Programs> programs;
  for (auto program : module.getOps<exec::ProgramOp>())
    (generating.contains(program.getSymName()) ? programs.second : programs.first).push_back(program);
  return programs;
}

/// All that passes from a block to the next one, where it is most.
uint64_t getCheckpointBytes(ArrayRef<exec::ProgramOp> programs) {
  uint64_t most = 0;
  for (exec::ProgramOp program : programs)
    most = std::max(most, getOutputBytes(program, isFlow));
  return most;
}

/// Whether what flows from block to block needs one buffer, or two that change places.
bool flowsInPlace(ArrayRef<exec::ProgramOp> programs) {
  return llvm::all_of(programs, [](exec::ProgramOp program) {
    return program.getInPlace() || !program.takesFlow() ||
           !gives(program, [](train::PortAttr port) { return port.getKind() == train::PortKind::Flow; });
  });
}

/// What gradients need, by what becomes of them (runtime/train/gradients.h).
struct GradientNeeds {
  uint64_t applied = 0, kept = 0, summed = 0;
};

/// A gradient that is applied at once has memory while its block runs, one that is kept or summed its own. One of
/// several blocks, as of a tied table, has its own in any case, where the first of them writes it. Beside those of the
/// head is what it takes and gives, which nobody reads when others come.
GradientNeeds countGradients(ModuleOp module, uint64_t headBytes) {
  SmallVector<SmallVector<nn::ParameterOp>> byBlock; // as the backward comes to them
  DenseMap<Operation *, unsigned> readers;
  SmallVector<train::BlockOp> blocks = llvm::to_vector(module.getOps<train::BlockOp>());
  for (train::BlockOp block : llvm::reverse(blocks)) {
    SmallVector<nn::ParameterOp> &ofBlock = byBlock.emplace_back();
    for (NamedAttribute named : block.getPrograms()) {
      auto program = module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue()));
      for (auto port : program.getOutputPorts().getAsRange<train::PortAttr>())
        if (isGradient(port))
          ofBlock.push_back(module.lookupSymbol<nn::ParameterOp>(block.getParameter(port.getName())));
    }
    for (nn::ParameterOp parameter : ofBlock)
      ++readers[parameter];
  }
  GradientNeeds needs;
  DenseSet<Operation *> begun;
  uint64_t ownOfShared = 0, own = 0, mostApplied = 0, mostKept = 0, mostSummed = 0;
  for (auto [index, ofBlock] : llvm::enumerate(byBlock)) {
    uint64_t ofHead = index == 0 ? headBytes : 0, applied = ofHead, kept = ofHead, summed = ofHead;
    for (nn::ParameterOp parameter : ofBlock) {
      uint64_t bytes = format::alignUp(parameter.getTensorType().getNumElements() * sizeof(float));
      bool isFirst = begun.insert(parameter).second, isShared = readers.lookup(parameter) > 1;
      own += isFirst ? bytes : 0;
      ownOfShared += isFirst && isShared ? bytes : 0;
      applied += isFirst && isShared ? 0 : bytes;
      kept += isFirst ? 0 : bytes;
      summed += bytes;
    }
    mostApplied = std::max(mostApplied, applied);
    mostKept = std::max(mostKept, kept);
    mostSummed = std::max(mostSummed, summed);
  }
  return {ownOfShared + mostApplied, own + mostKept, own + mostSummed};
}

/// What programs need while they run.
struct ProgramNeeds {
  exec::ProgramOp largest; // by its arena
  ArenaPeak peak;          // of that one
  uint64_t arena = 0;
  uint64_t live = 0; // the most of arena and gradients that one program of a step needs at one moment

  /// `beside`: gradients, and what the head takes and gives.
  void add(exec::ProgramOp program, const ArenaPeak &ofProgram, bool runsInStep, uint64_t beside) {
    uint64_t ofArena = program.getArenaBytes();
    if (runsInStep)
      live = std::max(live, beside + ofProgram.bytes);
    if (largest && ofArena <= arena)
      return;
    largest = program;
    peak = ofProgram;
    arena = ofArena;
  }
};

/// By what a session computes: one that computes gradients has room for every program.
struct NeedsBySession {
  ProgramNeeds gradients, losses;
  GradientNeeds ofGradients;
  uint64_t ofHead = 0; // what the head takes and gives
};

NeedsBySession findProgramNeeds(ArrayRef<exec::ProgramOp> programs, uint64_t headBytes) {
  NeedsBySession needs;
  needs.ofHead = headBytes;
  for (exec::ProgramOp program : programs) {
    ArenaPeak peak = findArenaPeak(program);
    bool givesGradients = program.givesGradients(), isForward = gives(program, isFlow);
    bool isHead = gives(program, isLogProbability);
    needs.gradients.add(program, peak, isForward || givesGradients,
                        getOutputBytes(program, isGradient) + (isHead ? headBytes : 0));
    if (!givesGradients)
      needs.losses.add(program, peak, isForward || isHead, 0);
  }
  return needs;
}

/// What a session needs with an optimizer, whose gradients are applied at once.
SessionMemory withOptimizer(SessionMemory memory, const format::OptimizerTraits &traits, const NeedsBySession &needs) {
  const ProgramNeeds &needed = traits.forwardOnly ? needs.losses : needs.gradients;
  memory.forwardOnly = traits.forwardOnly;
  memory.stateArrays = traits.stateArrays;
  memory.gradients = traits.forwardOnly ? 0 : needs.ofGradients.applied;
  memory.head = traits.forwardOnly ? needs.ofHead : 0;
  memory.scratch = needed.arena;
  return memory;
}

/// The peak with each optimizer and each sink of gradients (runtime/train/gradients.h), the planned ones included.
std::vector<PlannedBuffer> listOtherPeaks(const MemoryPlan &plan, const NeedsBySession &needs) {
  std::vector<PlannedBuffer> peaks;
  for (const format::OptimizerTraits &traits : format::optimizers) {
    const SessionMemory applied = withOptimizer(plan.memory, traits, needs);
    auto add = [&](const char *use, uint64_t gradients) {
      SessionMemory memory = applied;
      memory.gradients = gradients;
      peaks.push_back({traits.name + std::string(use), plan.processBytes + memory.total(), ""});
    };
    if (traits.forwardOnly) {
      add("", 0);
      continue;
    }
    add(", gradients applied at once", needs.ofGradients.applied);
    add(", clipped or returned", needs.ofGradients.kept);
    add(", accumulated", needs.ofGradients.summed);
  }
  return peaks;
}

/// The parts of a session's memory that are there, for people.
std::vector<PlannedBuffer> listBuffers(const SessionMemory &memory, const Options &options, StringRef scratchOf) {
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
  add("trainables", memory.trainables, options.full.isChosen ? "the model's own, f32" : "adapter, f32");
  add("optimizer", memory.state(), training.optimizer + (memory.spill == Spill::All ? ", of one tensor at once" : ""));
  add("gradients", memory.gradients, "of one block, applied at once");
  add("scratch", memory.scratch, scratchOf.str());
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

void planGeneration(ModuleOp module, ArrayRef<exec::ProgramOp> programs, const Options &options, MemoryPlan &plan) {
  if (programs.empty())
    return;
  GenerationMemory memory;
  memory.trainables = plan.memory.trainables;
  memory.workspace = plan.memory.workspace;
  memory.residency = plan.memory.residency;
  memory.flow = (flowsInPlace(programs) ? 1 : 2) * getCheckpointBytes(programs);
  uint64_t layers = 0;
  for (auto block : module.getOps<train::BlockOp>())
    if (FlatSymbolRefAttr program = block.getProgram(format::decodeProgram))
      if (uint64_t bytes = getStateBytes(module.lookupSymbol<exec::ProgramOp>(program)))
        memory.state += bytes, ++layers;
  for (exec::ProgramOp program : programs)
    memory.scratch = std::max(memory.scratch, program.getArenaBytes());
  uint64_t rows = countDecodeRows(options), batch = options.shape.batch;
  memory.tokens = format::alignUp(rows * sizeof(int32_t)) + format::alignUp(batch * sizeof(int32_t));
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
  add("trainables", memory.trainables, options.full.isChosen ? "the model's own, f32" : "adapter, f32");
  add("scratch", memory.scratch, "");
  add("workspace", memory.workspace, std::to_string(options.training.threads) + " threads");
  add("tokens", memory.tokens, "ids");
  add("logits", memory.logits, "of the last token");
  add("residency", memory.residency, "which weights are in memory");
  plan.generationPeakBytes = plan.processBytes + memory.total();
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
  const uint64_t tokens = options.shape.batch * options.shape.sequence;
  uint64_t tokenBytes = 0, headBytes = 0;
  for (const format::StepPort &port : format::stepPorts)
    (port.ofHead ? headBytes : tokenBytes) += format::alignUp(format::bytesOf(port, tokens));
  NeedsBySession needs = findProgramNeeds(trainingPrograms, headBytes);
  needs.ofGradients = countGradients(module, headBytes);
  MemoryPlan plan;
  plan.processBytes = runtimeBytes;
  plan.calibrated = inputs.machine.rates.isCalibrated();

  SessionMemory &memory = plan.memory;
  memory.checkpoint = getCheckpointBytes(trainingPrograms);
  for (auto block : module.getOps<train::BlockOp>())
    memory.layers += block.getKind() == train::BlockKind::Layer;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    uint64_t bytes = format::alignUp(parameter.getTensorType().getNumElements() * sizeof(float));
    memory.trainables += bytes;
    memory.largestTrainable = std::max(memory.largestTrainable, bytes);
  }
  memory.flowsInPlace = flowsInPlace(trainingPrograms);
  memory.spacing = options.schedule.spacing;
  memory.spill = options.schedule.spill;
  memory.tokens = tokenBytes;
  memory.workspace = training.threads * format::workspaceBytes;
  if (training.residentLimit)
    memory.residency = format::alignUp(format::residencyBytes(inputs.weightsBytes));
  memory = withOptimizer(memory, *format::findOptimizer(std::string_view(training.optimizer)), needs);

  ProgramNeeds &largest = memory.forwardOnly ? needs.losses : needs.gradients;
  plan.buffers = listBuffers(memory, options, largest.largest.getSymName());
  plan.otherPeaks = listOtherPeaks(plan, needs);
  plan.atPeak = describe(largest.peak);
  plan.stepSeconds = predictStep(module, options.shape.sequence, training.optimizer, inputs.machine);
  plan.seconds = plan.stepSeconds.total(memory, inputs.machine.rates);
  plan.peakBytes = plan.processBytes + memory.total();
  plan.liveBytes = plan.peakBytes - memory.scratch - memory.gradients + largest.live;
  planGeneration(module, generatingPrograms, options, plan);
  return plan;
}

} // namespace mebp
