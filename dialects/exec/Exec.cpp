// SPDX-License-Identifier: Apache-2.0
#include "dialects/exec/Exec.h"

#include "dialects/exec/InPlace.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;
using mebp::train::PortAttr;
using mebp::train::PortKind;
using mebp::train::SliceOp;

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

/// Where a value lies: from `begin` to `end` in the scratch arena, or in the memory of the bound value `owner`.
struct Place {
  unsigned value;
  int64_t owner; // -1: the arena
  int64_t begin, end;
  bool overlaps(const Place &other) const { return owner == other.owner && begin < other.end && other.begin < end; }
};

/// Checks one entry of the table by itself. Slices have no place of their own.
FailureOr<std::optional<Place>> verifyPlace(ProgramOp program, ArrayRef<Value> values, unsigned index) {
  Value value = values[index];
  int64_t offset = (*program.getPlacement())[index], bytes = sizeInBytes(value);
  bool isInput = value.getParentBlock() == &program.getBody().front() && isa<BlockArgument>(value);
  bool isOutput = llvm::is_contained(program.getReturn().getValues(), value);
  if (isInput && isOutput)
    return program.emitOpError() << "returns its input " << index << ", which it cannot hand over";
  if ((offset == ProgramOp::bound) != (isInput || isOutput))
    return program.emitOpError() << (offset == ProgramOp::bound ? "binds value " : "does not bind value ") << index
                                 << ", which is " << (isInput || isOutput ? "an" : "no") << " input or output";
  if ((offset == ProgramOp::view) != static_cast<bool>(value.getDefiningOp<SliceOp>()))
    return program.emitOpError() << "places value " << index
                                 << (offset == ProgramOp::view ? " as a slice, which it is not"
                                                               : ", which is a slice, by itself");
  if (offset == ProgramOp::view)
    return std::optional<Place>();
  if (offset == ProgramOp::bound)
    return std::optional<Place>({index, index, 0, bytes});
  if (offset < 0) {
    int64_t target = ProgramOp::firstAlias - offset, inputs = program.getBody().getNumArguments();
    if (target >= static_cast<int64_t>(values.size()) || (*program.getPlacement())[target] != ProgramOp::bound)
      return program.emitOpError() << "lets value " << index << " share the memory of value " << target
                                   << ", which is not bound";
    if (target < inputs)
      return program.emitOpError() << "lets value " << index << " share the memory of input " << target
                                   << ", which is not the program's to write";
    if (bytes > static_cast<int64_t>(sizeInBytes(values[target])))
      return program.emitOpError() << "lets value " << index << " share the memory of value " << target
                                   << ", which is smaller";
    return std::optional<Place>({index, target, 0, bytes});
  }
  if (offset + bytes > static_cast<int64_t>(program.getArenaBytes().value_or(0)))
    return program.emitOpError() << "places value " << index << " beyond the end of its arena";
  return std::optional<Place>({index, -1, offset, offset + bytes});
}

LogicalResult verifyPlacement(ProgramOp program) {
  Lifetimes lifetimes(program);
  ArrayRef<Value> values = lifetimes.getValues();
  if (program.getPlacement()->size() != values.size())
    return program.emitOpError() << "places " << program.getPlacement()->size() << " values, but has " << values.size();

  SmallVector<Place> placed;
  for (unsigned index = 0; index < values.size(); ++index) {
    FailureOr<std::optional<Place>> place = verifyPlace(program, values, index);
    if (failed(place))
      return failure();
    if (*place)
      placed.push_back(**place);
  }
  for (size_t i = 0; i < placed.size(); ++i)
    for (size_t j = i + 1; j < placed.size(); ++j) {
      const Place &a = placed[i], &b = placed[j];
      Value first = values[a.value], second = values[b.value];
      if (!a.overlaps(b) || !lifetimes.get(first).intersects(lifetimes.get(second)))
        continue;
      bool sameBytes = a.begin == b.begin;
      if (sameBytes && (isHandover(lifetimes, first, second) || isHandover(lifetimes, second, first) ||
                        isCarried(lifetimes, first, second) || isCarried(lifetimes, second, first)))
        continue;
      InFlightDiagnostic error = program.emitOpError()
                                 << "places value " << b.value << " over value " << a.value << " while both are alive";
      error.attachNote(first.getLoc()) << "value " << a.value << " is defined here";
      error.attachNote(second.getLoc()) << "value " << b.value << " is defined here";
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

Value getRoot(Value value) {
  while (auto slice = value.getDefiningOp<SliceOp>())
    value = slice.getSource();
  return value;
}

std::optional<StringRef> getParameter(ProgramOp program, Value value) {
  auto argument = dyn_cast<BlockArgument>(getRoot(value));
  if (!argument || argument.getOwner() != &program.getBody().front())
    return std::nullopt;
  PortAttr port = program.getInputPort(argument.getArgNumber());
  return port.getKind() == PortKind::Parameter ? std::optional(port.getName()) : std::nullopt;
}

uint64_t sizeInBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return static_cast<uint64_t>(type.getNumElements()) * (type.getElementTypeBitWidth() / 8);
}

} // namespace mebp::exec

ReturnOp ProgramOp::getReturn() { return cast<ReturnOp>(getBody().front().getTerminator()); }

bool ProgramOp::givesGradients() {
  return llvm::any_of(getOutputPorts().getAsRange<PortAttr>(),
                      [](PortAttr port) { return port.getKind() == PortKind::Gradient || port.isCotangent(); });
}
bool ProgramOp::takesFlow() {
  return llvm::any_of(getInputPorts().getAsRange<PortAttr>(), [](PortAttr port) { return port.isFlow(); });
}

LogicalResult ProgramOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.empty() || !isa<ReturnOp>(body.back()))
    return emitOpError("does not end with exec.return");
  if (getInputPorts().size() != body.getNumArguments() || getOutputPorts().size() != getReturn().getValues().size())
    return emitOpError("has another number of ports than of inputs or outputs");
  auto verifyPorts = [&](ArrayAttr ports, bool (PortAttr::*fits)() const, StringRef side) -> LogicalResult {
    llvm::SmallDenseSet<Attribute> seen;
    for (Attribute attribute : ports) {
      auto port = dyn_cast<PortAttr>(attribute);
      if (!port)
        return emitOpError() << "has " << attribute << " where a #train.port belongs";
      if (!(port.*fits)())
        return emitOpError() << "has the " << side << " " << attribute << ", which goes the other way";
      if (!seen.insert(attribute).second)
        return emitOpError() << "has the " << side << " " << attribute << " twice";
    }
    return success();
  };
  if (failed(verifyPorts(getInputPorts(), &PortAttr::mayGoIn, "input")) ||
      failed(verifyPorts(getOutputPorts(), &PortAttr::mayComeOut, "output")))
    return failure();
  for (Value value : numberValues(*this)) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.hasStaticShape() || type.getRank() != 2 || !type.getElementType().isIntOrFloat())
      return emitOpError() << "has a value that is not a matrix of a known largest size: " << value.getType();
  }
  if (getInPlace() && !mayRunInPlace(*this, Lifetimes(*this)))
    return emitOpError("is in place, but reads what it would have overwritten");
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
