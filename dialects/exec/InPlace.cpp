// SPDX-License-Identifier: Apache-2.0
//
// Whether a program can leave its output where its input was.
//
// Terms: a write is a kernel or an update whose result lies in the output's memory; a read is an op that reads the
// input or a slice of it.
// 1. In the innermost block around a write and a read, the read must come first. One kernel may do both where it may
//    leave its result in that operand's memory.
// 2. In a loop around both, a read of a later trip follows the write. That is right only where the write updates the
//    rows of its trip and the read was of the rows of its own: trips cover different rows.
#include "dialects/exec/Placement.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;
using mebp::train::PortAttr;
using mebp::train::PortKind;
using mebp::train::SliceOp;
using mebp::train::UpdateOp;

namespace {

struct Read {
  OpOperand *operand;
  SmallVector<Value> trips; // of the slices between the input and the op
};

/// False where the input goes somewhere that cannot be followed.
bool collectReads(Value value, const SmallVector<Value> &trips, SmallVectorImpl<Read> &reads) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto slice = dyn_cast<SliceOp>(user)) {
      SmallVector<Value> inner = trips;
      inner.push_back(slice.getTrip());
      if (!collectReads(slice, inner, reads))
        return false;
    } else if (isa<KernelOp, UpdateOp>(user)) {
      reads.push_back({&use, trips});
    } else {
      return false;
    }
  }
  return true;
}

/// The kernels and updates that write the memory of an output.
SmallVector<Operation *> collectWrites(ProgramOp program, unsigned output) {
  SmallVector<Operation *> writes;
  program.walk([&](Operation *op) {
    if (isa<KernelOp, UpdateOp>(op) && llvm::any_of(op->getResults(), [&](Value result) {
          std::optional<Span> place = locate(result);
          return place && place->memory == Memory::Output && place->number == static_cast<int64_t>(output);
        }))
      writes.push_back(op);
  });
  return writes;
}

bool replaces(Operation *write, OpOperand *operand) {
  auto kernel = dyn_cast<KernelOp>(write);
  return kernel && kernel == operand->getOwner() &&
         llvm::any_of(llvm::seq<unsigned>(0, kernel.getNumResults()),
                      [&](unsigned number) { return kernel.getReusable(number) == operand; });
}

bool isReadFirst(const Read &read, Operation *write) {
  Operation *owner = read.operand->getOwner();
  Block *block = write->getBlock();
  while (!block->findAncestorOpInBlock(*owner))
    block = block->getParentOp()->getBlock();
  Operation *reader = block->findAncestorOpInBlock(*owner), *writer = block->findAncestorOpInBlock(*write);
  if (!reader->isBeforeInBlock(writer) && !replaces(write, read.operand))
    return false;
  auto update = dyn_cast<UpdateOp>(write);
  for (auto loop = dyn_cast<LoopOp>(block->getParentOp()); loop; loop = dyn_cast<LoopOp>(loop->getParentOp()))
    if (!update || update.getTrip() != loop.getTrip() || !llvm::is_contained(read.trips, Value(loop.getTrip())))
      return false;
  return true;
}

bool mayLieInInput(ProgramOp program, BlockArgument input, unsigned output) {
  if (input.getType() != program.getReturn().getValues()[output].getType())
    return false;
  SmallVector<Read> reads;
  if (!collectReads(input, {}, reads))
    return false;
  for (Operation *write : collectWrites(program, output))
    for (const Read &read : reads)
      if (!isReadFirst(read, write))
        return false;
  return true;
}

} // namespace

bool mebp::exec::mayRunInPlace(ProgramOp program) {
  auto findInput = [&](StringRef name) {
    for (BlockArgument argument : program.getBody().front().getArguments())
      if (program.getInputPort(argument.getArgNumber()).is(PortKind::Flow, name))
        return argument;
    return BlockArgument();
  };
  bool flows = false;
  for (unsigned index = 0; index < program.getOutputPorts().size(); ++index) {
    PortAttr port = program.getOutputPort(index);
    if (port.getKind() != PortKind::Flow)
      continue;
    flows = true;
    BlockArgument input = findInput(port.getName());
    if (!input)
      input = findInput(format::flowOf(port.getName()));
    if (!input || !mayLieInInput(program, input, index))
      return false;
  }
  return flows;
}
