// SPDX-License-Identifier: Apache-2.0
#include "format/kernels.h"
#include "runtime/backends/cpu/interpreter/interpreter.h"
#include "runtime/backends/cpu/interpreter/tensors.h"
#include "runtime/exec/read_attributes.h"

namespace mebp::cpu {

using format::Extent;
using format::Placement;

namespace {

class Preparer {
public:
  Preparer(const format::Program &program, const FindKernel &find, PreparedProgram &out)
      : program(program), find(find), out(out) {}

  Status run() {
    out.loops.resize(program.loops());
    prepareValues();
    if (Status status = addSteps(program.steps()); !status.ok())
      return status;
    out.calls.shrink_to_fit();
    out.instructions.shrink_to_fit();
    out.windows.shrink_to_fit();
    // Only now do the calls stay where they are.
    for (PreparedCall &prepared : out.calls) {
      prepared.call.operands = prepared.tensors.data();
      prepared.call.results = prepared.tensors.data() + prepared.call.operandCount;
    }
    return Status();
  }

private:
  void prepareValues() {
    out.values.resize(static_cast<size_t>(program.values_size()));
    out.tensors.resize(out.values.size());
    int32_t binding = 0;
    for (const format::Port &input : program.inputs())
      out.values[input.value()].binding = binding++;
    for (const format::Port &output : program.outputs())
      out.values[output.value()].binding = binding++;
    for (uint32_t i = 0; i < out.values.size(); ++i) {
      const format::Value &value = program.values(static_cast<int>(i));
      PreparedValue &prepared = out.values[i];
      prepared.shape = tensorOf(value.element(), value.rows(), value.columns());
      prepared.tokens = value.row_extent().kind() == Extent::TOKENS;
      if (value.row_extent().kind() == Extent::LOOP)
        out.loops[value.row_extent().loop()].rowValues.push_back(i);
      if (value.column_extent().kind() == Extent::LOOP)
        out.loops[value.column_extent().loop()].columnValues.push_back(i);
      if (value.placement().kind() == Placement::ARENA)
        prepared.arenaOffset = static_cast<int64_t>(value.placement().offset());
      if (value.placement().kind() == Placement::ALIAS)
        prepared.binding = out.values[value.placement().alias()].binding;
    }
  }

  void add(Instruction::Kind kind, size_t index) { out.instructions.push_back({kind, static_cast<uint32_t>(index)}); }

  Status addSteps(const format::Repeated<format::Step> &steps) {
    for (const format::Step &step : steps) {
      if (step.has_kernel()) {
        if (Status status = addCall(step.kernel()); !status.ok())
          return status;
      } else if (step.has_loop()) {
        if (Status status = addLoop(step.loop()); !status.ok())
          return status;
      } else if (step.has_slice()) {
        addWindow(Instruction::Kind::Slice, step.slice().source(), step.slice().result(), step.slice().loop());
      } else {
        addWindow(Instruction::Kind::Update, step.update().destination(), step.update().source(), step.update().loop());
      }
    }
    return Status();
  }

  Status addCall(const format::Kernel &kernel) {
    PreparedCall prepared;
    prepared.kernel = find(kernel.name());
    if (!prepared.kernel)
      return failure(MEBP_UNSUPPORTED,
                     "program '%s': this runtime was built without the kernel '%s', by -DMEBP_BUNDLES; build it again "
                     "with this bundle in that list, or without the option",
                     program.name().c_str(), kernel.name().c_str());
    if (Status status = readAttributes(kernel, prepared.call.attributes); !status.ok())
      return status;
    if (kernel.results_size() > 0)
      prepared.source = program.values(kernel.results(0)).source().c_str();
    const format::KernelSignature &signature = *format::findSignature(kernel.name());
    prepared.signature = &signature;
    prepared.table = format::tableOf(signature);
    prepared.piece = signature.gathers ? format::gatheredRows : 0;
    prepared.call.operandCount = static_cast<size_t>(kernel.operands_size());
    prepared.call.resultCount = static_cast<size_t>(kernel.results_size());
    prepared.values.assign(kernel.operands().begin(), kernel.operands().end());
    prepared.values.insert(prepared.values.end(), kernel.results().begin(), kernel.results().end());
    prepared.tensors.resize(prepared.values.size());
    add(Instruction::Kind::Call, out.calls.size());
    out.calls.push_back(std::move(prepared));
    return Status();
  }

  Status addLoop(const format::Loop &loop) {
    PreparedLoop &prepared = out.loops[loop.loop()];
    prepared.loop = &loop;
    prepared.begin = static_cast<uint32_t>(out.instructions.size());
    add(Instruction::Kind::LoopBegin, loop.loop());
    if (Status status = addSteps(loop.steps()); !status.ok())
      return status;
    add(Instruction::Kind::LoopEnd, loop.loop());
    return Status();
  }

  void addWindow(Instruction::Kind kind, uint32_t whole, uint32_t part, uint32_t loop) {
    const format::Value &value = program.values(static_cast<int>(part));
    auto isTrips = [&](const format::Extent &extent) { return extent.kind() == Extent::LOOP && extent.loop() == loop; };
    const bool rows = isTrips(value.row_extent()), columns = isTrips(value.column_extent());
    add(kind, out.windows.size());
    out.windows.push_back({whole, part, loop, columns, !rows && !columns});
  }

  const format::Program &program;
  const FindKernel &find;
  PreparedProgram &out;
};

} // namespace

Status prepare(const format::Program &program, const FindKernel &find, PreparedProgram &out) {
  return Preparer(program, find, out).run();
}

} // namespace mebp::cpu
