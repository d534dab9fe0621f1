// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/MemoryPlan.h"

#include "compiler/plan/CostModel.h"

#include "dialects/exec/Lifetimes.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/backends/cpu/workspace.h"

using namespace mlir;

namespace mebp {

namespace {

// What mebp-run needs beside its arena: written pages of its libraries and its own, the stack, the parsed program.
// Measured as its peak less the arena's touched pages; test/e2e/test_memory.py holds the whole plan against the system.
constexpr uint64_t runtimeBytes = 1'000'000;

uint64_t roundUp(uint64_t bytes) { return llvm::alignTo(bytes, 64); }

std::vector<PlannedBuffer> listLiveAtPeak(exec::ProgramOp program) {
  exec::Lifetimes lifetimes(program);
  ArrayRef<int64_t> placement = *program.getPlacement();
  // Values in one place count once.
  unsigned last = 0;
  for (Value value : lifetimes.getValues())
    last = std::max(last, lifetimes.get(value).end);
  DenseMap<int64_t, Value> best;
  uint64_t bestBytes = 0;
  for (unsigned position = 0; position <= last; ++position) {
    DenseMap<int64_t, Value> live;
    uint64_t bytes = 0;
    for (auto [value, offset] : llvm::zip(lifetimes.getValues(), placement)) {
      auto interval = lifetimes.get(value);
      if (offset < 0 || position < interval.begin || position > interval.end)
        continue;
      if (live.try_emplace(offset, value).second)
        bytes += exec::sizeInBytes(value);
    }
    if (bytes > bestBytes) {
      bestBytes = bytes;
      best = live;
    }
  }
  std::vector<PlannedBuffer> buffers;
  for (auto [offset, value] : best) {
    Operation *definition = value.getDefiningOp();
    auto kernel = dyn_cast_or_null<exec::KernelOp>(definition);
    std::string name = kernel       ? kernel.getKernel().str()
                       : definition ? definition->getName().stripDialect().str()
                                    : "carried";
    buffers.push_back({name, exec::sizeInBytes(value), describeLocation(value.getLoc())});
  }
  llvm::sort(buffers, [](const PlannedBuffer &a, const PlannedBuffer &b) {
    return std::tie(b.bytes, a.name, a.source) < std::tie(a.bytes, b.name, b.source);
  });
  return buffers;
}

uint64_t getStateBytes(StringRef optimizer, uint64_t trainables) { return optimizer == "adamw" ? 2 * trainables : 0; }

/// The gradients of one block: they are applied before those of the next one are computed.
uint64_t getLargestGradients(ModuleOp module) {
  uint64_t largest = 0;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    uint64_t bytes = 0;
    for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
      if (program.getOutputRole(index).getKind() == train::role::gradient)
        bytes += roundUp(exec::sizeInBytes(value));
    largest = std::max(largest, bytes);
  }
  return largest;
}

/// The peak with each optimizer and each sink of gradients (runtime/train/gradients.h), the planned ones included.
std::vector<PlannedBuffer> listOtherPeaks(uint64_t peak, StringRef planned, uint64_t trainables, uint64_t ofOneBlock) {
  std::vector<PlannedBuffer> peaks;
  for (StringRef optimizer : {"adamw", "sgd"}) {
    uint64_t applied = peak - getStateBytes(planned, trainables) + getStateBytes(optimizer, trainables);
    peaks.push_back({(optimizer + ", gradients applied at once").str(), applied, ""});
    peaks.push_back({(optimizer + ", clipped or returned").str(), applied - ofOneBlock + trainables, ""});
    peaks.push_back({(optimizer + ", accumulated").str(), applied + trainables, ""});
  }
  return peaks;
}

} // namespace

std::string describeLocation(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    std::string inner = fused.getLocations().empty() ? "" : describeLocation(fused.getLocations().front());
    return fused.getMetadata() ? inner + " (gradient)" : inner;
  }
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (auto scope = dyn_cast<NameLoc>(name.getChildLoc()))
      return scope.getName().str();
    return name.getName().str();
  }
  return "";
}

uint64_t countCheckpoints(uint64_t blocks, uint64_t spacing) {
  // runtime/train/layout.h: the last segment is whole, and of the first its beginning may be missing.
  return blocks / std::min(spacing, blocks) + std::min(spacing, blocks) - 1;
}

RankedTensorType getCheckpointType(ModuleOp module) {
  for (auto program : module.getOps<exec::ProgramOp>())
    for (auto [index, argument] : llvm::enumerate(program.getBody().front().getArguments()))
      if (program.getInputRole(index).getKind() == train::role::activation)
        return cast<RankedTensorType>(argument.getType());
  llvm_unreachable("every model has a head, which reads a checkpoint");
}

MemoryPlan computeMemoryPlan(ModuleOp module, const PlanOptions &options) {
  MemoryPlan plan;
  plan.processBytes = runtimeBytes;
  uint64_t tokens = options.batch * options.sequence;
  RankedTensorType type = getCheckpointType(module);
  uint64_t checkpoint = roundUp(tokens * type.getDimSize(1) * type.getElementTypeBitWidth() / 8);
  uint64_t blocks = 0, trainableBytes = 0;
  for (auto block : module.getOps<train::BlockOp>())
    blocks += block.getKind() != train::BlockKind::Embed;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    if (parameter.getTrainable())
      trainableBytes += roundUp(parameter.getTensorType().getNumElements() * sizeof(float));
  exec::ProgramOp largest;
  for (auto program : module.getOps<exec::ProgramOp>())
    if (!largest || program.getArenaBytes().value_or(0) > largest.getArenaBytes().value_or(0))
      largest = program;

  auto add = [&](std::string name, uint64_t bytes, std::string source) {
    if (bytes)
      plan.buffers.push_back({std::move(name), bytes, std::move(source)});
  };
  uint64_t spacing = options.schedule.spacing, count = countCheckpoints(blocks, spacing);
  plan.checkpointBytes = checkpoint;
  plan.seconds = predictStep(module, options.sequence, options.threads).total(blocks, spacing);
  add("checkpoints", count * checkpoint,
      std::to_string(count) + (spacing > 1 ? " of " + std::to_string(blocks) : "") + " block inputs");
  add("cotangents", 2 * checkpoint, "of a block's input and output");
  add("trainables", trainableBytes, "adapter, f32");
  add("optimizer", getStateBytes(options.optimizer, trainableBytes), options.optimizer);
  add("gradients", getLargestGradients(module), "of one block, applied at once");
  add("scratch", largest ? largest.getArenaBytes().value_or(0) : 0, largest ? largest.getSymName().str() : "");
  add("workspace", options.threads * cpu::workspaceBytes, std::to_string(options.threads) + " threads");
  add("tokens", 2 * roundUp(tokens * sizeof(int32_t)) + 2 * roundUp(sizeof(float)), "ids, labels, loss and scale");
  plan.peakBytes = plan.processBytes;
  for (const PlannedBuffer &buffer : plan.buffers)
    plan.peakBytes += buffer.bytes;
  plan.otherPeaks = listOtherPeaks(plan.peakBytes, options.optimizer, trainableBytes, getLargestGradients(module));
  if (largest)
    plan.atPeak = listLiveAtPeak(largest);
  return plan;
}

} // namespace mebp
