// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/RemoteMemory.h"

#include "dialects/exec/Placement.h"
#include "format/alignment.h"
#include "format/ports.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace mebp {

namespace {

struct Passed {
  uint64_t bytes = 0;
  bool isKept = false;
  bool isRemote = false;
};

void collect(exec::ProgramOp program, llvm::MapVector<train::PortAttr, Passed> &passed) {
  const bool isBackward = program.givesGradients();
  auto add = [&](train::PortAttr port, Value value, bool comesIn) {
    const bool isRemote = port.getKind() == train::PortKind::Remote;
    if (!isRemote && port.getKind() != train::PortKind::Kept)
      return;
    Passed &entry = passed[port];
    entry.bytes = format::alignUp(exec::sizeInBytes(value));
    entry.isRemote = isRemote;
    entry.isKept |= comesIn && isBackward && (port.isPassed() || !isRemote);
  };
  for (BlockArgument argument : program.getBody().front().getArguments())
    add(program.getInputPort(argument.getArgNumber()), argument, true);
  for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
    add(program.getOutputPort(index), value, false);
}

} // namespace

RemoteMemory countRemote(ModuleOp module, bool generates) {
  RemoteMemory memory;
  for (auto block : module.getOps<train::BlockOp>()) {
    llvm::MapVector<train::PortAttr, Passed> passed;
    for (NamedAttribute named : block.getPrograms())
      if (format::generates(named.getName().strref()) == generates)
        collect(module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue())), passed);
    uint64_t passing = 0, whole = 0, values = 0;
    for (auto &[port, entry] : passed) {
      (entry.isKept ? memory.kept : passing) += entry.bytes;
      whole += format::isCotangent(std::string_view(port.getName())) ? 0 : entry.bytes;
      values += entry.isRemote ? 0 : entry.bytes;
    }
    if (block.getKind() == train::BlockKind::Layer)
      memory.values.push_back(values);
    memory.passing = std::max(memory.passing, passing);
    memory.whole = std::max(memory.whole, whole);
  }
  return memory;
}

std::string describeKeptValues(ModuleOp module) {
  SmallVector<std::pair<std::string, unsigned>> layers; // in how many layers these are kept
  for (auto block : module.getOps<train::BlockOp>()) {
    FlatSymbolRefAttr name = block.getProgram(format::forwardProgram);
    if (block.getKind() != train::BlockKind::Layer || !name)
      continue;
    SmallVector<StringRef> values;
    unsigned count = 0;
    for (auto port : module.lookupSymbol<exec::ProgramOp>(name).getOutputPorts().getAsRange<train::PortAttr>()) {
      auto [place, number] = port.getName().rsplit('.'); // of several values in one place
      StringRef value = llvm::to_integer(number, count) ? place : port.getName();
      if (port.getKind() == train::PortKind::Kept && !llvm::is_contained(values, value))
        values.push_back(value);
    }
    if (values.empty())
      continue;
    std::string names = llvm::join(values, ", ");
    auto known = llvm::find_if(layers, [&](const auto &layer) { return layer.first == names; });
    if (known != layers.end())
      ++known->second;
    else
      layers.push_back({std::move(names), 1});
  }
  std::string text;
  for (const auto &[values, count] : layers)
    text += (text.empty() ? "of " : "; of ") + std::to_string(count) + (count == 1 ? " layer: " : " layers: ") + values;
  return text;
}

uint64_t countLargestMessage(ModuleOp module, uint64_t tokens) {
  uint64_t largest = tokens * sizeof(int32_t);
  for (auto program : module.getOps<exec::ProgramOp>()) {
    uint64_t in = 0, out = 0;
    auto add = [&](train::PortAttr port, Value value, uint64_t &sum) {
      if (port.getKind() == train::PortKind::Flow)
        largest = std::max(largest, exec::sizeInBytes(value));
      else if (port.getKind() == train::PortKind::Remote)
        sum += exec::sizeInBytes(value);
    };
    for (BlockArgument argument : program.getBody().front().getArguments())
      if (train::PortAttr port = program.getInputPort(argument.getArgNumber());
          port.isPassed() || !program.givesGradients())
        add(port, argument, in);
    for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
      add(program.getOutputPort(index), value, out);
    largest = std::max({largest, in, out});
  }
  return largest;
}

} // namespace mebp
