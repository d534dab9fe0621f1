// SPDX-License-Identifier: Apache-2.0
#include "dialects/exec/Exec.h"

#include "dialects/exec/Lifetimes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;

#include "dialects/exec/ExecDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttributes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/ExecAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/ExecOps.cpp.inc"
      >();
}

namespace {

void numberBlock(Block &block, SmallVectorImpl<Value> &values) {
  for (BlockArgument argument : block.getArguments())
    if (!argument.getType().isIndex())
      values.push_back(argument);
  for (Operation &op : block) {
    if (auto loop = dyn_cast<LoopOp>(op))
      numberBlock(loop.getBody().front(), values);
    values.append(op.result_begin(), op.result_end());
  }
}

/// Whether `later` may begin in the memory of `earlier`, whose last reader it is.
bool isHandover(const Lifetimes &lifetimes, Value earlier, Value later) {
  return lifetimes.mayHandOver(earlier, later) && lifetimes.get(earlier).end <= lifetimes.get(later).begin;
}

/// The back edge of a loop: argument and yielded value are both needed, one at either end of a trip.
bool isCarried(const Lifetimes &lifetimes, Value argument, Value yielded) {
  auto loop = dyn_cast<LoopOp>(argument.getParentBlock()->getParentOp());
  if (!loop || !lifetimes.mayHandOver(argument, yielded))
    return false;
  return argument == yielded || !lifetimes.get(argument).intersects(lifetimes.get(yielded)) ||
         lifetimes.get(argument).end <= lifetimes.get(yielded).begin;
}

LogicalResult verifyPlacement(ProgramOp program) {
  Lifetimes lifetimes(program);
  ArrayRef<Value> values = lifetimes.getValues();
  ArrayRef<int64_t> placement = *program.getPlacement();
  if (placement.size() != values.size())
    return program.emitOpError() << "places " << placement.size() << " values, but has " << values.size();

  SmallVector<unsigned> placed;
  for (auto [index, offset] : llvm::enumerate(placement)) {
    if (offset <= ProgramOp::firstAlias) {
      uint64_t target = ProgramOp::firstAlias - offset;
      if (target >= values.size() || placement[target] != ProgramOp::bound)
        return program.emitOpError() << "lets value " << index << " share the memory of value " << target
                                     << ", which is not bound";
    }
    if (offset < 0)
      continue;
    if (offset + sizeInBytes(values[index]) > static_cast<uint64_t>(program.getArenaBytes().value_or(0)))
      return program.emitOpError() << "places value " << index << " beyond the end of its arena";
    placed.push_back(index);
  }
  for (size_t i = 0; i < placed.size(); ++i)
    for (size_t j = i + 1; j < placed.size(); ++j) {
      Value first = values[placed[i]], second = values[placed[j]];
      int64_t a = placement[placed[i]], b = placement[placed[j]];
      bool apart = a + static_cast<int64_t>(sizeInBytes(first)) <= b || b + static_cast<int64_t>(sizeInBytes(second)) <= a;
      if (apart || !lifetimes.get(first).intersects(lifetimes.get(second)))
        continue;
      bool sameBytes = a == b;
      if (sameBytes && (isHandover(lifetimes, first, second) || isHandover(lifetimes, second, first) ||
                        isCarried(lifetimes, first, second) || isCarried(lifetimes, second, first)))
        continue;
      InFlightDiagnostic error = program.emitOpError()
                                 << "places value " << placed[j] << " over value " << placed[i] << " while both are alive";
      error.attachNote(first.getLoc()) << "value " << placed[i] << " is defined here";
      error.attachNote(second.getLoc()) << "value " << placed[j] << " is defined here";
      return error;
    }
  return success();
}

} // namespace

namespace mebp::exec {

SmallVector<Value> numberValues(ProgramOp program) {
  SmallVector<Value> values;
  numberBlock(program.getBody().front(), values);
  return values;
}

SmallVector<LoopOp> numberLoops(ProgramOp program) {
  SmallVector<LoopOp> loops;
  program.walk<WalkOrder::PreOrder>([&](LoopOp loop) { loops.push_back(loop); });
  return loops;
}

uint64_t sizeInBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return static_cast<uint64_t>(type.getNumElements()) * (type.getElementTypeBitWidth() / 8);
}

} // namespace mebp::exec

ReturnOp ProgramOp::getReturn() { return cast<ReturnOp>(getBody().front().getTerminator()); }

LogicalResult ProgramOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.empty() || !isa<ReturnOp>(body.back()))
    return emitOpError("does not end with exec.return");
  if (getInputRoles().size() != body.getNumArguments() || getOutputRoles().size() != getReturn().getValues().size())
    return emitOpError("has another number of roles than of inputs or outputs");
  for (Attribute role : llvm::concat<const Attribute>(getInputRoles().getValue(), getOutputRoles().getValue()))
    if (!isa<RoleAttr>(role))
      return emitOpError() << "has " << role << " where a #exec.role belongs";
  for (Value value : numberValues(*this)) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.hasStaticShape() || type.getRank() != 2)
      return emitOpError() << "has a value that is no matrix of a known largest size: " << value.getType();
  }
  return getPlacement() ? verifyPlacement(*this) : success();
}

LogicalResult KernelOp::verify() {
  if (getTies().size() != getOutputs().size() || getReuses().size() != getOutputs().size())
    return emitOpError("needs one entry in 'ties' and in 'reuses' for each result");
  for (int64_t index : llvm::concat<const int64_t>(getSlots(), getTies(), getReuses()))
    if (index < -1 || index >= static_cast<int64_t>(getInputs().size()))
      return emitOpError() << "refers to input " << index << " of " << getInputs().size();
  return success();
}
