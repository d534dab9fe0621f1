// SPDX-License-Identifier: Apache-2.0
//
// The CPU: interprets programs over one arena, with a pool of threads inside each kernel.
#include "runtime/backends/cpu/backend.h"

#include <algorithm>
#include <vector>

#include "format/machine.h"
#include "platform/platform.h"
#include "runtime/backends/cpu/choice.h"
#include "runtime/backends/cpu/interpreter/interpreter.h"
#include "runtime/backends/cpu/kernel/flush_denormals.h"
#include "runtime/backends/cpu/machine.h"
#include "runtime/backends/cpu/registry.h"
#include "runtime/backends/cpu/vector/parallel.h"

namespace mebp {

namespace {

class CpuBackend final : public Backend, private Workers {
public:
  CpuBackend(uint32_t threads, bool referenceKernels)
      : threads(threads), times(threads),
        set(referenceKernels ? cpu::InstructionSet::Reference : cpu::instructionSet()) {}
  ~CpuBackend() override {
    if (machine)
      cpu::giveBackInstructionSet(set);
  }

  const char *kernels() const override { return cpu::nameOf(set); }

  bool useKernels(const std::string &family) override {
    for (cpu::InstructionSet wanted : cpu::availableInstructionSets()) {
      if (family != cpu::nameOf(wanted))
        continue;
      cpu::giveBackInstructionSet(set);
      cpu::InstructionSet before = set;
      set = cpu::takeInstructionSet(wanted);
      if (set != wanted) {
        cpu::giveBackInstructionSet(set);
        set = cpu::takeInstructionSet(before);
        return false;
      }
      machine->use(set);
      return preparePrograms().ok();
    }
    return false;
  }

  bool followsPlacements() const override { return true; }
  uint64_t workspaceBytes() const override { return threads * uint64_t(cpu::workspaceBytes); }

  Status load(const format::Bundle &bundle, unsigned char *workspace) override {
    if (const std::string &refusal = cpu::instructionSetRefusal(); !refusal.empty())
      return failure(MEBP_UNSUPPORTED, "%s", refusal.c_str());
    content = &bundle;
    set = cpu::takeInstructionSet(set);
    machine = std::make_unique<cpu::Machine>(set, threads, workspace);
    if (!machine->hasThreads())
      return failure(MEBP_OUT_OF_MEMORY, "the system refuses %u threads; ask for fewer", threads);
    return preparePrograms();
  }

  // Programs work on the host's memory where it lies.
  Buffer take(void *memory, uint64_t, Access) override {
    auto free = std::find(buffers.begin(), buffers.end(), nullptr);
    if (free == buffers.end())
      free = buffers.insert(free, nullptr);
    *free = static_cast<unsigned char *>(memory);
    return static_cast<Buffer>(free - buffers.begin());
  }
  void giveBack(Buffer buffer) override { buffers[buffer] = nullptr; }

  Status enqueue(uint32_t program, const Run &run) override {
    const format::Program &bindings = content->programs(static_cast<int>(program));
    bound.resize(static_cast<size_t>(bindings.inputs_size() + bindings.outputs_size()));
    for (size_t i = 0; i < bound.size(); ++i) {
      const Binding &binding = run.bindings[i];
      bound[i] = {at(binding.data), reinterpret_cast<const uint16_t *>(at(binding.scales)),
                  reinterpret_cast<const uint16_t *>(at(binding.minima))};
    }
    cpu::Context context = machine->contextOf(run.sequence, run.position, run.isDecoding);
    context.logitScale = run.logitScale;
    context.dropout = run.dropout;
    context.times = run.observer && run.observer->followsWork() ? &times : nullptr;
    const cpu::FlushDenormals flush;
    bool isWhole = interpret(programs[program], bound.data(), at(run.arena), run, context);
    return isWhole ? Status() : run.cancellation->refusal();
  }
  Status wait() override { return Status(); }

  Workers *workers() override { return this; }

private:
  void run(uint64_t count, void (*task)(void *argument, uint64_t index), void *argument) override {
    const cpu::FlushDenormals flush;
    cpu::parallelFor(machine->contextOf(0), static_cast<int64_t>(count),
                     [&](int64_t index, unsigned char *) { task(argument, static_cast<uint64_t>(index)); });
  }

  unsigned char *at(Place place) const { return place.isThere() ? buffers[place.buffer] + place.offset : nullptr; }

  Status preparePrograms() {
    auto find = [this](std::string_view name) { return cpu::findKernel(name, set); };
    programs = std::vector<cpu::PreparedProgram>(static_cast<size_t>(content->programs_size()));
    for (const format::Program &program : content->programs()) // a step allocates nothing
      bound.reserve(static_cast<size_t>(program.inputs_size() + program.outputs_size()));
    for (size_t i = 0; i < programs.size(); ++i)
      if (Status status = prepare(content->programs(static_cast<int>(i)), find, programs[i]); !status.ok())
        return status;
    return Status();
  }

  uint32_t threads;
  cpu::ThreadTimes times; // of a kernel call, where somebody asks
  cpu::InstructionSet set;
  const format::Bundle *content = nullptr;
  std::unique_ptr<cpu::Machine> machine;
  std::vector<cpu::PreparedProgram> programs;
  std::vector<unsigned char *> buffers; // by their numbers; null: given back
  std::vector<cpu::Memory> bound;       // of the program that runs
};

} // namespace

Device lookAtCpu() {
  Device device;
  device.description = format::processorName() + ", " + cpu::nameOf(cpu::instructionSet()) + " kernels";
  device.memoryBytes = platform::physicalMemoryBytes();
  return device;
}

std::unique_ptr<Backend> makeCpuBackend(uint32_t threads, bool referenceKernels) {
  return std::make_unique<CpuBackend>(threads, referenceKernels);
}

} // namespace mebp
