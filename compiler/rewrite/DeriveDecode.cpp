// SPDX-License-Identifier: Apache-2.0
//
// Derives what generates text: from each forward function one that takes the next tokens of a sequence, and finds of
// the earlier ones what it needs in a state.
//
// Terms, as SequenceOpInterface has them: an operand is read row by row, or with everything before. A state keeps the
// rows of one value from step to step, as many as any reader looks back.
// 1. Clone the forward function, or the head's logits, for as many rows as a step of generation has. Each sequence is
//    one sample: where samples start is not asked.
// 2. What an op reads with everything before is appended to a state, and the op reads that. Where all its readers have
//    a window, the state is a ring: it has room for the window and the step's other rows, in whole tiles of keys.
//    What the block shares with others is a state of that name, and their ops read it there.
// 3. What an op carries from row to row is a state of the block, one for each sequence, which the op itself keeps
//    up to date.
// 4. An op that reads rows behind its own, or sums rows up, needs tokens that are not there yet, and is refused.
#include "compiler/rewrite/Passes.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Attention.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Kernels.h"
#include "format/kernels.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_DERIVEDECODE
#include "compiler/rewrite/Passes.h.inc"

namespace {

using nn::SequenceUse;

class Decoder {
public:
  /// `capacities`: of the states that functions before this one share.
  Decoder(func::FuncOp function, int64_t positions, int64_t rows, int64_t batch, llvm::StringMap<int64_t> &capacities)
      : function(function), positions(positions), rows(rows), batch(batch), capacities(capacities) {}

  LogicalResult run() {
    dropStarts();
    dropLoads();
    dropDropouts();
    takeShared();
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(collect(&op)))
        return failure();
    while (shareCapacities())
      ;
    for (auto &[value, kept] : states)
      if (failed(isOfOther(value) ? read(cast<BlockArgument>(value), kept) : keep(value, kept)))
        return failure();
    for (OpResult state : carried)
      carry(state);
    return success();
  }

private:
  struct State {
    int64_t capacity = 0;
    std::string name; // as the first reader calls it
    SmallVector<OpOperand *> readers;
  };

  void dropStarts() {
    for (Operation &op : function.getBody().front())
      if (int slot = nn::findSlot(&op, format::startsPort); slot != format::noSlot)
        nn::setSlotOperand(&op, slot, {});
    for (unsigned i = function.getNumArguments(); i-- > 0;)
      if (train::PortAttr port = train::getArgumentPort(function, i);
          port && port.is(train::PortKind::Batch, format::startsPort))
        (void)function.eraseArgument(i);
  }

  /// How experts are used is of no use to text.
  void dropLoads() {
    for (auto load : llvm::make_early_inc_range(function.getBody().front().getOps<nn::ExpertLoadOp>())) {
      auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
      for (unsigned i = terminator.getNumOperands(); i-- > 0;)
        if (terminator.getOperand(i).getDefiningOp() == load) {
          terminator.getOperandsMutable().erase(i);
          (void)function.eraseResult(i);
        }
      unsigned counted = cast<BlockArgument>(load.getCounted()).getArgNumber();
      load.erase();
      (void)function.eraseArgument(counted);
    }
  }

  /// Which are of steps alone.
  void dropDropouts() {
    for (auto dropout : llvm::make_early_inc_range(function.getBody().front().getOps<nn::DropoutOp>())) {
      dropout.getResult().replaceAllUsesWith(dropout.getX());
      dropout.erase();
    }
  }

  /// What other blocks read is no result: they find it in the state.
  void takeShared() {
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (unsigned i = terminator.getNumOperands(); i-- > 0;)
      if (train::PortAttr port = train::getResultPort(function, i); port && port.getKind() == train::PortKind::Shared) {
        shared[terminator.getOperand(i)] = port.getName().str();
        terminator.getOperandsMutable().erase(i);
        (void)function.eraseResult(i);
      }
  }

  /// Notes what the op reads of earlier rows.
  LogicalResult collect(Operation *op) {
    if (llvm::none_of(op->getOperandTypes(), nn::isTokens) && llvm::none_of(op->getResultTypes(), nn::isTokens))
      return success();
    auto sequence = dyn_cast<nn::SequenceOpInterface>(op);
    if (!sequence)
      return op->emitOpError("does not say which rows of tokens it uses, so it cannot generate text");
    nn::SequenceUses uses = sequence.getSequenceUses();
    for (auto [result, use] : llvm::zip_equal(op->getResults(), uses.results)) {
      if (use == SequenceUse::Carried)
        carried.push_back(result);
      else if (use != SequenceUse::Rows && use != SequenceUse::None)
        return op->emitOpError(
            "computes more than rows of its own, so it cannot generate text one token after another");
    }
    for (auto [operand, use] : llvm::zip_equal(op->getOpOperands(), uses.operands)) {
      if (use == SequenceUse::Everything || use == SequenceUse::Sum)
        return op->emitOpError("reads later tokens, so it cannot generate text one token after another");
      if (use == SequenceUse::Before && failed(collect(op, operand)))
        return failure();
    }
    return success();
  }

  LogicalResult collect(Operation *op, OpOperand &operand) {
    if (!nn::getSignature(op).ofState)
      return op->emitOpError("reads earlier tokens, but not from a state, so it cannot generate text");
    State &state = states[operand.get()];
    if (state.readers.empty()) {
      auto known = shared.find(operand.get());
      state.name = known == shared.end() ? nameOf(op, operand.getOperandNumber()) : known->second;
    }
    state.readers.push_back(&operand);
    int64_t window = nn::getWindow(op), ring = llvm::alignTo(window + rows - 1, format::keyTile);
    state.capacity = std::max(state.capacity, window > 0 ? std::min(ring, positions) : positions);
    return success();
  }

  /// What one op reads has one capacity. Whether any has grown.
  bool shareCapacities() {
    bool hasGrown = false;
    for (auto &[value, state] : states)
      for (OpOperand *reader : state.readers)
        for (Value beside : reader->getOwner()->getOperands())
          if (auto *other = states.find(beside); other != states.end() && other->second.capacity < state.capacity) {
            other->second.capacity = state.capacity;
            hasGrown = true;
          }
    return hasGrown;
  }

  /// The slot's name, numbered from the second one of that name on.
  std::string nameOf(Operation *op, unsigned operand) {
    StringRef slot = nn::getSignature(op).operands[operand].name;
    unsigned earlier = names[slot]++;
    return slot.str() + (earlier ? "." + std::to_string(earlier) : "");
  }

  LogicalResult keep(Value value, const State &state) {
    auto type = cast<RankedTensorType>(value.getType());
    Type kept = nn::getTokensType(nn::features(value), type.getElementType(), state.capacity);
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, kept, {}, value.getLoc());
    train::setArgumentPort(function, index, train::PortKind::State, state.name);
    if (shared.contains(value))
      capacities[state.name] = state.capacity;

    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfterValue(value);
    Value appended =
        nn::AppendOp::create(builder, value.getLoc(), kept, function.getArgument(index), value, state.capacity);
    for (OpOperand *reader : state.readers)
      readFrom(appended, *reader, state.capacity);
    return success();
  }

  bool isOfOther(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && train::getArgumentPort(function, argument.getArgNumber()).getKind() == train::PortKind::Shared;
  }

  /// What another block has appended to its state.
  LogicalResult read(BlockArgument argument, const State &state) {
    StringRef name = train::getArgumentPort(function, argument.getArgNumber()).getName();
    auto known = capacities.find(name);
    if (known == capacities.end() || known->second != state.capacity)
      return state.readers.front()->getOwner()->emitOpError()
             << "reads other positions of '" << name << "' than the layer that makes it keeps, so it cannot generate "
             << "text";
    auto type = cast<RankedTensorType>(argument.getType());
    argument.setType(nn::getTokensType(nn::features(argument), type.getElementType(), state.capacity));
    for (OpOperand *reader : state.readers)
      readFrom(argument, *reader, state.capacity);
    function.setFunctionType(
        Builder(function.getContext())
            .getFunctionType(function.getBody().front().getArgumentTypes(), function.getFunctionType().getResults()));
    return success();
  }

  static void readFrom(Value state, OpOperand &reader, int64_t capacity) {
    reader.set(state);
    reader.getOwner()->setAttr("capacity", Builder(state.getContext()).getI64IntegerAttr(capacity));
  }

  /// One of each sequence, side by side.
  void carry(OpResult state) {
    auto op = cast<nn::KernelOpInterface>(state.getOwner());
    auto type = cast<RankedTensorType>(state.getType());
    Type kept = nn::getTokensType(type.getDimSize(1), type.getElementType(), type.getDimSize(0));
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, kept, {}, state.getLoc());
    op.setAccumulator(state.getResultNumber(), function.getArgument(index));
    SmallVector<Value> slots = nn::getSlotOperands(op);
    unsigned slot = llvm::find(slots, function.getArgument(index)) - slots.begin();
    train::setArgumentPort(function, index, train::PortKind::State, nameOf(op, slot));
    state.setType(kept);
    op->setAttr("items", IntegerAttr::get(IntegerType::get(op->getContext(), 64), batch));
  }

  func::FuncOp function;
  int64_t positions, rows, batch;
  llvm::StringMap<int64_t> &capacities;
  DenseMap<Value, std::string> shared; // what other blocks read, and its name
  llvm::MapVector<Value, State> states;
  SmallVector<OpResult> carried;
  llvm::StringMap<unsigned> names;
};

struct DeriveDecode : impl::DeriveDecodeBase<DeriveDecode> {
  using DeriveDecodeBase::DeriveDecodeBase;

  void runOnOperation() override {
    for (auto block : getOperation().getOps<train::BlockOp>()) {
      LogicalResult result = success();
      if (block.getKind() == train::BlockKind::Head)
        result = derive(block, format::logitsProgram, format::decodeLogitsProgram, batch);
      for (const format::ProgramTraits &program : train::getForwardPrograms(block))
        if (succeeded(result))
          result = derive(block, program.name, program.decode, rows);
      if (failed(result))
        return signalPassFailure();
    }
  }

  LogicalResult derive(train::BlockOp block, std::string_view from, std::string_view program, int64_t mostRows) {
    func::FuncOp source = block.lookupFunction(from);
    if (!source)
      return failure();
    func::FuncOp &derived = done[source.getSymName()];
    if (!derived) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(source);
      derived = cast<func::FuncOp>(builder.clone(*source));
      derived.setName((source.getSymName().rsplit('.').first + "." + StringRef(program)).str());
      train::setTokenRows(derived, mostRows);
      if (failed(Decoder(derived, positions, rows, batch, capacities).run()))
        return failure();
    }
    block.setProgram(program, derived.getSymName());
    return success();
  }

  llvm::StringMap<func::FuncOp> done; // by the name of the function that was derived from
  llvm::StringMap<int64_t> capacities;
};

} // namespace
} // namespace mebp
