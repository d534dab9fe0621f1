// SPDX-License-Identifier: Apache-2.0
//
// Whether a placed program finds in its memory what it means to read. Knows nothing of lifetimes or of how a planner
// reasons: it runs the program on a shadow of its memory.
//
// Terms: the shadow says which values a piece of memory holds. Two can be in one place: what a loop begins with, and
// its argument.
// 1. Every place is within its memory, and every place that has to be shared is.
// 2. In the program's order: what an op reads must be held where it lies; what it writes forgets everything that
//    overlaps. A result overlaps an operand only where the kernel adds to it or may work in its place.
// 3. A loop's body runs twice: its second trip begins with what the first one yielded, and finds whether a value of
//    outside, or one that is carried, outlives a trip.
// 4. At the end each output is where it has to be.
#include "dialects/exec/Placement.h"
#include "format/alignment.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;
using mebp::train::SliceOp;
using mebp::train::UpdateOp;

namespace {

Span makeSpan(PlaceAttr place, Value value) {
  auto bytes = static_cast<int64_t>(sizeInBytes(value));
  if (place.getMemory() == Memory::Arena)
    return {Memory::Arena, 0, place.getNumber(), place.getNumber() + bytes};
  return {place.getMemory(), place.getNumber(), 0, bytes};
}

class Shadow {
public:
  explicit Shadow(ProgramOp program) : program(program) {}

  LogicalResult run() {
    Block &body = program.getBody().front();
    for (BlockArgument argument : body.getArguments())
      held.push_back({*locate(argument), {argument}, nullptr});
    if (failed(run(body)))
      return failure();
    for (auto [index, value] : llvm::enumerate(program.getReturn().getValues())) {
      auto place = locate(value);
      if (place->memory != Memory::Output || place->number != static_cast<int64_t>(index) ||
          value.getDefiningOp<SliceOp>())
        return program.emitOpError() << "returns as output " << index << " what lies elsewhere";
      if (failed(read(value, program.getReturn())))
        return failure();
    }
    return success();
  }

private:
  /// A piece of memory, the values that it holds, and the op that wrote them; null: bound as an input.
  struct Held {
    Span place;
    SmallVector<Value> values;
    Operation *writer;
  };

  LogicalResult run(Block &block) {
    for (Operation &op : block) {
      LogicalResult result = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                                 .Case<KernelOp, EmptyOp, UpdateOp, LoopOp>([&](auto typed) { return run(typed); })
                                 .Default([](Operation *) { return success(); });
      if (failed(result))
        return failure();
    }
    return success();
  }

  LogicalResult run(EmptyOp op) {
    if (failed(verifyPlace(op, op.getResult())))
      return failure();
    write(op.getResult(), op);
    return success();
  }

  LogicalResult run(KernelOp op) {
    for (Value operand : op.getInputs())
      if (failed(read(operand, op)))
        return failure();
    for (auto [number, result] : llvm::enumerate(op.getOutputs())) {
      if (failed(verifyPlace(op, result)))
        return failure();
      OpOperand *accumulator = op.getAccumulator(number), *reusable = op.getReusable(number);
      Span place = *locate(result);
      if (accumulator && (accumulator->get().getDefiningOp<SliceOp>() || !(*locate(accumulator->get()) == place)))
        return op.emitOpError() << "does not add result " << number << " to its operand in place";
      for (OpOperand &operand : op->getOpOperands()) {
        Span other = *locate(operand.get());
        bool mayShare = &operand == accumulator || &operand == reusable;
        if (place.overlaps(other) && !(mayShare && place == other))
          return op.emitOpError() << "writes result " << number << " over an operand that it reads";
      }
      for (Value other : op.getOutputs().take_front(number))
        if (place.overlaps(*locate(other)))
          return op.emitOpError() << "writes result " << number << " over another";
    }
    for (Value result : op.getOutputs())
      write(result, op);
    return success();
  }

  LogicalResult run(UpdateOp op) {
    if (failed(read(op.getDestination(), op)) || failed(read(op.getSource(), op)))
      return failure();
    if (op.getDestination().getDefiningOp<SliceOp>() || !mayWrite(*locate(op.getResult())))
      return op.emitOpError("updates what is not the program's to write");
    if (locate(op.getSource())->overlaps(*locate(op.getResult())))
      return op.emitOpError("writes over the rows that it reads");
    write(op.getResult(), op);
    return success();
  }

  LogicalResult run(LoopOp loop) {
    auto carry = [&](ValueRange from, ValueRange to, Operation *reader) -> LogicalResult {
      SmallVector<Held *> pieces;
      for (auto [source, target] : llvm::zip(from, to)) {
        if (source.getDefiningOp<SliceOp>() || !(*locate(source) == *locate(target)))
          return reader->emitOpError("carries a value that lies elsewhere in the next trip");
        if (!mayWrite(*locate(source)))
          return reader->emitOpError("carries an input, which is not the program's to write");
        if (failed(read(source, reader)))
          return failure();
        pieces.push_back(find(source));
      }
      for (Value target : to)
        for (Held &piece : held)
          llvm::erase(piece.values, target);
      for (auto [piece, target] : llvm::zip(pieces, to))
        piece->values.push_back(target);
      return success();
    };
    if (failed(carry(loop.getInits(), loop.getCarried(), loop)))
      return failure();
    for (unsigned trip = 0; trip < 2; ++trip)
      if ((loop.getOver() && failed(read(loop.getOver(), loop))) || failed(run(loop.getBody().front())) ||
          failed(carry(loop.getYield().getValues(), loop.getCarried(), loop.getYield())))
        return failure();
    for (auto [carried, result] : llvm::zip(loop.getCarried(), loop.getResults()))
      find(carried)->values.push_back(result);
    return success();
  }

  /// An input is not the program's, but for its block's state.
  bool mayWrite(const Span &place) {
    return place.memory != Memory::Input || isState(program.getBody().front().getArgument(place.number));
  }

  LogicalResult verifyPlace(Operation *op, Value result) {
    Span place = *locate(result);
    if (place.memory == Memory::Arena)
      return place.begin >= 0 && place.begin % static_cast<int64_t>(mebp::format::alignment) == 0
                 ? success()
                 : op->emitOpError() << "lies at byte " << place.begin << ", which is no multiple of "
                                     << mebp::format::alignment;
    if (place.memory == Memory::Input) {
      auto inputs = program.getBody().front().getArguments();
      bool fits = place.number >= 0 && place.number < static_cast<int64_t>(inputs.size()) && mayWrite(place) &&
                  inputs[place.number].getType() == result.getType();
      return fits ? success() : op->emitOpError("lies where no memory of the program's to write is");
    }
    auto outputs = program.getReturn().getValues();
    if (place.number < 0 || place.number >= static_cast<int64_t>(outputs.size()))
      return op->emitOpError("lies where no memory of the program's to write is");
    if (outputs[place.number].getType() != result.getType())
      return op->emitOpError() << "lies in output " << place.number << ", which is of another type";
    return success();
  }

  Held *find(Value value) {
    for (Held &piece : held)
      if (llvm::is_contained(piece.values, value))
        return &piece;
    return nullptr;
  }

  LogicalResult read(Value value, Operation *reader) {
    Value root = getRoot(value);
    if (find(root))
      return success();
    Span place = *locate(root);
    InFlightDiagnostic error = reader->emitOpError("reads what has been overwritten");
    error.attachNote(root.getLoc()) << "it is defined here";
    for (const Held &piece : held)
      if (piece.writer && piece.place.overlaps(place))
        error.attachNote(piece.writer->getLoc()) << "it is overwritten here";
    return error;
  }

  void write(Value value, Operation *writer) {
    Span place = *locate(value);
    llvm::erase_if(held, [&](const Held &piece) { return piece.place.overlaps(place); });
    held.push_back({place, {value}, writer});
  }

  ProgramOp program;
  SmallVector<Held> held;
};

} // namespace

std::optional<Span> mebp::exec::locate(Value value) {
  value = getRoot(value);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto loop = dyn_cast<LoopOp>(argument.getOwner()->getParentOp()))
      return locate(loop.getInits()[argument.getArgNumber() - 1]);
    return Span{Memory::Input, argument.getArgNumber(), 0, static_cast<int64_t>(sizeInBytes(value))};
  }
  unsigned number = cast<OpResult>(value).getResultNumber();
  return llvm::TypeSwitch<Operation *, std::optional<Span>>(value.getDefiningOp())
      .Case<KernelOp>([&](auto kernel) -> std::optional<Span> {
        if (!kernel.getPlaces())
          return std::nullopt;
        return makeSpan(cast<PlaceAttr>((*kernel.getPlaces())[number]), value);
      })
      .Case<EmptyOp>([&](auto empty) -> std::optional<Span> {
        if (!empty.getPlace())
          return std::nullopt;
        return makeSpan(*empty.getPlace(), value);
      })
      .Case<UpdateOp>([](auto update) { return locate(update.getDestination()); })
      .Case<LoopOp>([&](auto loop) { return locate(loop.getInits()[number]); })
      .Default([](Operation *) { return std::nullopt; });
}

bool mebp::exec::isState(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto program = argument ? dyn_cast<ProgramOp>(argument.getOwner()->getParentOp()) : ProgramOp();
  return program && program.getInputPort(argument.getArgNumber()).getKind() == mebp::train::PortKind::State;
}

bool mebp::exec::isPlaced(ProgramOp program) {
  return !program
              .walk([](Operation *op) {
                return llvm::all_of(op->getResults(),
                                    [](Value value) { return value.getType().isIndex() || locate(value); })
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

LogicalResult mebp::exec::verifyPlacement(ProgramOp program) { return Shadow(program).run(); }
