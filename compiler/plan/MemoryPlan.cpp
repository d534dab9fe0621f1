// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/MemoryPlan.h"

#include "dialects/exec/Lifetimes.h"
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
  exec::Lifetimes lifetimes(program);
  ArrayRef<int64_t> placement = *program.getPlacement();
  unsigned last = 0;
  for (Value value : lifetimes.getValues())
    last = std::max(last, lifetimes.get(value).end);
  ArenaPeak peak;
  for (unsigned position = 0; position <= last; ++position) {
    ArenaPeak live;
    for (auto [value, offset] : llvm::zip(lifetimes.getValues(), placement)) {
      auto interval = lifetimes.get(value);
      if (offset < 0 || position < interval.begin || position > interval.end)
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

uint64_t getStateBytes(StringRef optimizer, uint64_t trainables) { return countStateArrays(optimizer) * trainables; }

/// The gradients that a program gives: they are applied before those of the next one are computed.
uint64_t getGradientBytes(exec::ProgramOp program) {
  uint64_t bytes = 0;
  for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
    if (program.getOutputRole(index).getKind() == train::Role::Gradient)
      bytes += format::alignUp(exec::sizeInBytes(value));
  return bytes;
}

/// Whether what flows from block to block needs one buffer, or two that change places.
bool flowsInPlace(ModuleOp module) {
  for (auto block : module.getOps<train::BlockOp>())
    for (auto [use, name] : block.getPrograms())
      if ((use == train::ProgramUse::Forward || train::givesGradients(use)) &&
          block.getKind() != train::BlockKind::Embed && !module.lookupSymbol<exec::ProgramOp>(name).getInPlace())
        return false;
  return true;
}

/// What programs need while they run.
struct ProgramNeeds {
  exec::ProgramOp largest; // by its arena
  ArenaPeak peak;          // of that one
  uint64_t arena = 0, gradients = 0;
  uint64_t live = 0; // the most of arena and gradients that one program of a step needs at one moment

  void add(exec::ProgramOp program, const ArenaPeak &ofProgram, bool runsInStep) {
    uint64_t ofGradients = getGradientBytes(program), ofArena = program.getArenaBytes().value_or(0);
    gradients = std::max(gradients, ofGradients);
    if (runsInStep)
      live = std::max(live, ofGradients + ofProgram.bytes);
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
};

NeedsBySession findProgramNeeds(ModuleOp module) {
  DenseSet<StringRef> forwards, losses, gradients;
  for (auto block : module.getOps<train::BlockOp>())
    for (auto [use, name] : block.getPrograms()) {
      if (use == train::ProgramUse::Forward)
        forwards.insert(name.getValue());
      else if (use == train::ProgramUse::Loss)
        losses.insert(name.getValue());
      else if (train::givesGradients(use))
        gradients.insert(name.getValue());
    }
  NeedsBySession needs;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    StringRef name = program.getSymName();
    ArenaPeak peak = findArenaPeak(program);
    bool isForward = forwards.contains(name), givesGradients = gradients.contains(name);
    needs.gradients.add(program, peak, isForward || givesGradients);
    if (!givesGradients)
      needs.losses.add(program, peak, isForward || losses.contains(name));
  }
  return needs;
}

/// The peak with each optimizer and each sink of gradients (runtime/train/gradients.h), the planned ones included.
/// `common` is what all of them need, `ofGradients` what those need that compute gradients, but for their state; of
/// that as much is in memory as `inMemory` trainables have.
std::vector<PlannedBuffer> listOtherPeaks(uint64_t common, uint64_t ofGradients, uint64_t ofLosses, uint64_t inMemory,
                                          uint64_t trainables, uint64_t ofOneBlock) {
  std::vector<PlannedBuffer> peaks;
  for (const format::OptimizerTraits &traits : format::optimizers) {
    std::string optimizer = traits.name;
    uint64_t applied = common + ofGradients + getStateBytes(optimizer, inMemory);
    if (traits.forwardOnly) {
      peaks.push_back({optimizer, common + ofLosses, ""});
      continue;
    }
    peaks.push_back({optimizer + ", gradients applied at once", applied, ""});
    peaks.push_back({optimizer + ", clipped or returned", applied - ofOneBlock + trainables, ""});
    peaks.push_back({optimizer + ", accumulated", applied + trainables, ""});
  }
  return peaks;
}

} // namespace

uint64_t countCheckpoints(uint64_t layers, uint64_t spacing) {
  if (layers == 0)
    return 0;
  // runtime/train/layout.h: the last segment is whole, and of the first its beginning may be missing.
  return layers / std::min(spacing, layers) + std::min(spacing, layers) - 1;
}

RankedTensorType getCheckpointType(ModuleOp module) {
  for (auto program : module.getOps<exec::ProgramOp>())
    for (auto [index, argument] : llvm::enumerate(program.getBody().front().getArguments()))
      if (program.getInputRole(index).getKind() == train::Role::Activation)
        return cast<RankedTensorType>(argument.getType());
  llvm_unreachable("every model has a head, which reads a checkpoint");
}

MemoryPlan computeMemoryPlan(ModuleOp module, const Options &options, const PlanInputs &inputs) {
  const Training &training = options.training;
  MemoryPlan plan;
  plan.calibrated = inputs.machine.rates.isCalibrated();
  plan.processBytes = runtimeBytes;
  uint64_t tokens = options.shape.batch * options.shape.sequence;
  RankedTensorType type = getCheckpointType(module);
  plan.checkpointBytes = format::alignUp(tokens * type.getDimSize(1) * type.getElementTypeBitWidth() / 8);
  for (auto block : module.getOps<train::BlockOp>())
    plan.layers += block.getKind() == train::BlockKind::Layer;
  uint64_t trainables = 0, largestTrainable = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    uint64_t bytes = format::alignUp(parameter.getTensorType().getNumElements() * sizeof(float));
    trainables += bytes;
    largestTrainable = std::max(largestTrainable, bytes);
  }
  auto add = [&](std::string name, uint64_t bytes, std::string source) {
    if (bytes)
      plan.buffers.push_back({std::move(name), bytes, std::move(source)});
  };
  bool forwardOnly = isForwardOnly(training.optimizer), filed = options.schedule.spill == Spill::All;
  auto [gradientNeeds, lossNeeds] = findProgramNeeds(module);
  ProgramNeeds &needs = forwardOnly ? lossNeeds : gradientNeeds;
  plan.stateBytes = getStateBytes(training.optimizer, trainables);
  plan.filedStateRoom = getStateBytes(training.optimizer, largestTrainable);
  plan.stepSeconds = predictStep(module, options.shape.sequence, training.optimizer, inputs.machine);
  uint64_t spacing = options.schedule.spacing, kept = countCheckpoints(plan.layers, spacing);
  uint64_t checkpoints = options.schedule.spill == Spill::None ? kept * plan.checkpointBytes : 0;
  if (forwardOnly) {
    plan.seconds = plan.stepSeconds.totalForwardOnly();
  } else if (options.schedule.spill == Spill::None) {
    plan.seconds = plan.stepSeconds.total(plan.layers, spacing);
    plan.keptBytes = checkpoints;
    add("checkpoints", checkpoints,
        std::to_string(kept) + (spacing > 1 ? " of " + std::to_string(plan.layers) : "") + " layers' inputs");
  } else {
    plan.fileBytes = getFileBytes(plan, options.schedule.spill);
    plan.seconds = plan.stepSeconds.totalSpilled(plan.fileBytes, inputs.machine.rates);
  }
  bool inPlace = flowsInPlace(module);
  plan.flowBytes = (inPlace ? 1 : 2) * plan.checkpointBytes;
  add("cotangents", plan.flowBytes,
      forwardOnly ? "none: what flows forward"
      : inPlace   ? "of a layer's output, replaced by its input's"
                  : "of a layer's input and output");
  add("trainables", trainables, "adapter, f32");
  add("optimizer", filed ? plan.filedStateRoom : plan.stateBytes,
      training.optimizer + (filed ? ", of one tensor at once" : ""));
  add("gradients", needs.gradients, "of one block, applied at once");
  add("scratch", needs.arena, needs.largest.getSymName().str());
  add("workspace", training.threads * format::workspaceBytes, std::to_string(training.threads) + " threads");
  add("tokens", 2 * format::alignUp(tokens * sizeof(int32_t)) + 2 * format::alignUp(sizeof(float)),
      "ids, labels, loss and scale");
  if (training.residentLimit)
    add("residency", format::alignUp(format::residencyBytes(inputs.weightsBytes)), "which weights are in memory");
  plan.peakBytes = plan.processBytes;
  for (const PlannedBuffer &buffer : plan.buffers)
    plan.peakBytes += buffer.bytes;
  plan.liveBytes = plan.peakBytes - needs.arena - needs.gradients + needs.live;
  uint64_t common =
      plan.peakBytes - plan.keptBytes - (filed ? plan.filedStateRoom : plan.stateBytes) - needs.gradients - needs.arena;
  plan.otherPeaks = listOtherPeaks(common, checkpoints + gradientNeeds.gradients + gradientNeeds.arena, lossNeeds.arena,
                                   filed ? largestTrainable : trainables, trainables, gradientNeeds.gradients);
  plan.atPeak = describe(needs.peak);
  return plan;
}

uint64_t getFileBytes(const MemoryPlan &plan, Spill spill) {
  uint64_t checkpoints = spill == Spill::None ? 0 : plan.layers * plan.checkpointBytes;
  return checkpoints + (spill == Spill::All ? plan.stateBytes : 0);
}

} // namespace mebp
