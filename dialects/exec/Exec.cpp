// SPDX-License-Identifier: Apache-2.0
#include "dialects/exec/Exec.h"

#include "dialects/exec/Kernel.h"
#include "dialects/exec/Placement.h"
#include "format/alignment.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;
using mebp::train::PortAttr;
using mebp::train::PortKind;
using mebp::train::SliceOp;
using mebp::train::UpdateOp;
using mebp::train::YieldOp;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"

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

/// The loop of one sort around a block; null where there is none.
LoopOp findLoop(Block *block, bool overTokens) {
  for (auto loop = dyn_cast<LoopOp>(block->getParentOp()); loop; loop = dyn_cast<LoopOp>(loop->getParentOp()))
    if (isOverTokens(loop) == overTokens)
      return loop;
  return {};
}

/// That an extent says something where the value is: rows of a chunk only in a loop over tokens, and so on.
LogicalResult verifyValue(ProgramOp program, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getRank() != 2 || !type.getElementType().isIntOrFloat())
    return program.emitOpError() << "has a value that is not a matrix of a known largest size: " << value.getType();
  if (type.getEncoding() && !isa<ExtentAttr>(type.getEncoding()))
    return program.emitOpError() << "has a value whose encoding is no #exec.extent: " << type;
  Extents extents = getExtents(value);
  auto isThere = [&](Extent extent) {
    return (extent != Extent::Chunk && extent != Extent::Tile) ||
           findLoop(value.getParentBlock(), extent == Extent::Chunk);
  };
  if (!isThere(extents.rows) || !isThere(extents.columns))
    return program.emitOpError() << "has a value of a trip outside of the loop: " << type;
  if (extents.columns == Extent::Tokens || extents.columns == Extent::Chunk)
    return program.emitOpError() << "has a value whose columns are tokens: " << type;
  return success();
}

/// That `part` is what a trip covers of `whole`.
LogicalResult verifyWindow(Operation *op, Value whole, Value part, LoopOp loop) {
  auto wholeType = cast<RankedTensorType>(whole.getType()), partType = cast<RankedTensorType>(part.getType());
  Extents of = getExtents(whole), covered = getExtents(part);
  bool fits = false;
  if (isOverTokens(loop) && of.rows == Extent::Whole) // the trip's own part, by its number
    fits = loop.getDomain() != mebp::train::Domain::TokenRows && covered.rows == Extent::Whole &&
           of.columns == Extent::Whole && covered.columns == Extent::Whole &&
           wholeType.getDimSize(1) == partType.getDimSize(1) && wholeType.getDimSize(0) % partType.getDimSize(0) == 0;
  else if (isOverTokens(loop))
    fits = of.rows == Extent::Tokens && covered.rows == Extent::Chunk && of.columns == covered.columns &&
           wholeType.getDimSize(1) == partType.getDimSize(1);
  else if (of.rows == Extent::Whole && covered.rows == Extent::Tile)
    fits = of.columns == covered.columns && wholeType.getDimSize(1) == partType.getDimSize(1);
  else
    fits = wholeType.getDimSize(0) == 1 && partType.getDimSize(0) == 1 && of.columns == Extent::Whole &&
           of.rows == Extent::Whole && covered.rows == Extent::Whole && covered.columns == Extent::Tile;
  if (fits)
    return success();
  return op->emitOpError() << "has " << partType << ", which is not what a trip covers of " << wholeType;
}

LogicalResult verifyLoops(ProgramOp program) {
  WalkResult result = program.walk([](Operation *op) {
    LogicalResult checked = success();
    if (auto loop = dyn_cast<LoopOp>(op)) {
      if (findLoop(loop->getBlock(), isOverTokens(loop)))
        checked = loop.emitOpError("is in another loop of its sort, whose trips it could not tell from its own");
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      checked = verifyWindow(op, slice.getSource(), slice.getResult(),
                             cast<LoopOp>(slice.getTrip().getParentBlock()->getParentOp()));
    } else if (auto update = dyn_cast<UpdateOp>(op)) {
      checked = verifyWindow(op, update.getDestination(), update.getSource(),
                             cast<LoopOp>(update.getTrip().getParentBlock()->getParentOp()));
    } else if (!isa<ProgramOp, KernelOp, EmptyOp, YieldOp, ReturnOp>(op)) {
      checked = op->emitOpError("is no op of a program");
    }
    return WalkResult(checked);
  });
  return failure(result.wasInterrupted());
}

/// The places that ops say, of all of a program.
SmallVector<Attribute> collectPlaces(ProgramOp program) {
  SmallVector<Attribute> places;
  program.walk([&](Operation *op) {
    if (auto kernel = dyn_cast<KernelOp>(op); kernel && kernel.getPlaces())
      llvm::append_range(places, *kernel.getPlaces());
    else if (auto empty = dyn_cast<EmptyOp>(op); empty && empty.getPlace())
      places.push_back(*empty.getPlace());
  });
  return places;
}

void addEffects(bool isPlaced, SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (!isPlaced)
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
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

Extents getExtents(Value value) {
  auto extent = dyn_cast_or_null<ExtentAttr>(cast<RankedTensorType>(value.getType()).getEncoding());
  return extent ? Extents{extent.getRows(), extent.getColumns()} : Extents();
}

bool isOverTokens(LoopOp loop) { return loop.getDomain() != train::Domain::WeightRows; }

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
  for (Value value : numberValues(*this))
    if (failed(verifyValue(*this, value)))
      return failure();
  if (failed(verifyLoops(*this)))
    return failure();
  bool placed = isPlaced(*this);
  if (!placed && !collectPlaces(*this).empty())
    return emitOpError("has places for some of its values alone");
  if (placed && !collectPlaces(*this).empty() && failed(verifyPlacement(*this)))
    return failure();
  if (getInPlace() && (!placed || !mayRunInPlace(*this)))
    return emitOpError("is in place, but reads what it would have overwritten");
  return success();
}

uint64_t ProgramOp::getArenaBytes() {
  uint64_t bytes = 0;
  walk([&](Operation *op) {
    for (Value value : op->getResults())
      if (!value.getType().isIndex())
        if (std::optional<Span> place = locate(value); place && place->memory == Memory::Arena)
          bytes = std::max(bytes, mebp::format::alignUp(static_cast<uint64_t>(place->end)));
  });
  return bytes;
}

void KernelOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  addEffects(getPlaces().has_value(), effects);
}
void EmptyOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  addEffects(getPlace().has_value(), effects);
}
