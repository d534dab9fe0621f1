// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/RemoteMemory.h"

#include "dialects/exec/Placement.h"
#include "format/alignment.h"
#include "format/ports.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace mebp {

namespace {

struct Passed {
  uint64_t bytes = 0;
  bool isKept = false;
};

void collect(exec::ProgramOp program, llvm::MapVector<StringRef, Passed> &passed) {
  const bool isBackward = program.givesGradients();
  auto add = [&](train::PortAttr port, Value value, bool comesIn) {
    if (port.getKind() != train::PortKind::Remote)
      return;
    Passed &entry = passed[port.getName()];
    entry.bytes = format::alignUp(exec::sizeInBytes(value));
    entry.isKept |= comesIn && isBackward && port.isPassed();
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
    llvm::MapVector<StringRef, Passed> passed;
    for (NamedAttribute named : block.getPrograms())
      if (format::generates(named.getName().strref()) == generates)
        collect(module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue())), passed);
    uint64_t passing = 0, whole = 0;
    for (auto &[name, entry] : passed) {
      (entry.isKept ? memory.kept : passing) += entry.bytes;
      whole += format::isCotangent(std::string_view(name)) ? 0 : entry.bytes;
    }
    memory.passing = std::max(memory.passing, passing);
    memory.whole = std::max(memory.whole, whole);
  }
  return memory;
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
