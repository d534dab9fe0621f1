// SPDX-License-Identifier: Apache-2.0
//
// Runs the functions of layers in chunks along the sequence (StreamBP, the transformer layer; exact).
//
// Terms, as SequenceOpInterface has them: an operand is read row by row, with everything before, or with everything; a
// result is row by row, a sum over all rows, or added to everything before. What is read with more than its own rows is
// kept whole. What an op carries from row to row, forwards or backwards, is carried from trip to trip.
// 1. Ops without rows run before the loops; those that need a sum, behind them.
// 2. Where nothing is added to earlier rows, and nothing reads later ones, one ascending loop does it all: each trip
//    appends its rows to what is kept whole before any op reads that.
// 3. Else an ascending loop makes what is kept whole, and nothing more, and a second loop does the rest. It descends
//    where results are added to everything before: later chunks have then been there, and earlier ones cannot reach
//    this chunk's rows, which are complete. So a backward adds to the cotangents of keys and values, and takes this
//    chunk's on to their projections in the same trip.
//    It descends, too, where a state goes backwards.
// 4. Sums, and what is added to, are carried from trip to trip. They begin with what the op adds to already.
// 5. States are carried, too, and begin with nothing: no kernel reads them where a sequence begins or, backwards, ends.
//    A state that goes forwards cannot be carried by a descending loop. The ascending loop before it keeps what each
//    trip begins with, and the op is computed again from that.
// An op that does not say which rows it uses is refused, and so is what no order of chunks makes right.
#include "compiler/rewrite/LoopBuilder.h"
#include "compiler/rewrite/Passes.h"
#include "dialects/nn/Arithmetic.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_CHUNKSEQUENCE
#include "compiler/rewrite/Passes.h.inc"

namespace {

using nn::SequenceUse;

/// Whether it takes more than the op's own rows.
bool isWide(SequenceUse use) { return use == SequenceUse::Before || use == SequenceUse::Everything; }

class Chunker {
public:
  Chunker(func::FuncOp function, int64_t size, int64_t trips) : function(function), size(size), trips(trips) {}

  LogicalResult run() {
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(classify(&op)))
        return failure();
    if (!ops.empty())
      rewrite();
    return success();
  }

private:
  /// Puts the op before, into or behind the loops, and finds what they keep whole and carry.
  LogicalResult classify(Operation *op) {
    if (llvm::none_of(op->getOperandTypes(), nn::isTokens) && llvm::none_of(op->getResultTypes(), nn::isTokens)) {
      bool needsSum = llvm::any_of(op->getOperands(), [&](Value operand) { return sums.contains(operand); });
      (needsSum ? behind : before).push_back(op);
      if (needsSum)
        sums.insert_range(op->getResults());
      return success();
    }
    auto sequence = dyn_cast<nn::SequenceOpInterface>(op);
    if (!sequence)
      return op->emitOpError("does not say which rows of tokens it uses, so it cannot run in chunks");
    nn::SequenceUses opUses = sequence.getSequenceUses();
    for (auto [operand, use] : llvm::zip_equal(op->getOperands(), opUses.operands))
      if (failed(classifyOperand(op, operand, use)))
        return failure();
    for (auto [result, use] : llvm::zip_equal(op->getResults(), opUses.results))
      if (failed(classifyResult(op, result, use)))
        return failure();
    ops.push_back(op);
    uses[op] = std::move(opUses);
    return success();
  }

  LogicalResult classifyOperand(Operation *op, Value operand, SequenceUse use) {
    if (use == SequenceUse::None && sums.contains(operand))
      return op->emitOpError("reads a sum over all rows, which is complete only after the last chunk");
    if (use == SequenceUse::Sum && nn::isTokens(operand.getType()) && operand.getDefiningOp())
      return op->emitOpError("adds to rows that are computed chunk by chunk");
    if (!isWide(use) || !operand.getDefiningOp())
      return success(); // the block's input is whole already
    if (addedTo.contains(operand))
      return op->emitOpError("reads the rows of other chunks, which are still added to");
    whole.insert(operand);
    readsLater |= use == SequenceUse::Everything;
    return success();
  }

  LogicalResult classifyResult(Operation *op, Value result, SequenceUse use) {
    if (use == SequenceUse::None || use == SequenceUse::Rows)
      return success();
    unsigned number = cast<OpResult>(result).getResultNumber();
    if (nn::isCarried(use)) {
      if (!result.use_empty())
        return op->emitOpError() << "has a use of its state, result " << number << ", beside what carries it on";
      (use == SequenceUse::Carried ? states : statesBack).push_back(cast<OpResult>(result));
      return success();
    }
    assert(cast<nn::KernelOpInterface>(op).canAccumulate(number) &&
           "dialects/nn/Sequence.cpp has a check of the table");
    if (use == SequenceUse::Everything)
      return op->emitOpError() << "adds to the rows of later chunks in result " << number;
    (use == SequenceUse::Sum ? sums : addedTo).insert(result);
    carried.push_back(cast<OpResult>(result));
    return success();
  }

  void rewrite() {
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (Operation *op : before)
      op->moveBefore(ops.front());
    OpBuilder builder(ops.front());
    descends = !addedTo.empty() || !statesBack.empty();
    if ((descends && (!whole.empty() || !states.empty())) || readsLater)
      makeWhole(builder);

    LoopBuilder loop(builder, function.getLoc(), descends ? train::Domain::SequenceReversed : train::Domain::Sequence,
                     size);
    for (Value value : whole)
      if (!known.contains(value))
        loop.carryRows(value);
    for (OpResult result : carried)
      loop.carry(result, beginSum(builder, result));
    for (OpResult state : descends ? statesBack : states)
      loop.carry(state, beginState(builder, state));
    SmallVector<Value> byRows;
    llvm::copy_if(terminator.getOperands(), std::back_inserter(byRows),
                  [&](Value result) { return !addedTo.contains(result) && !whole.contains(result); });
    loop.carryTokenResults(byRows);
    loop.begin();
    for (Operation *op : ops)
      emit(builder, loop, op);
    loop.updateTokenResults(byRows);
    loop.end();

    IRMapping after;
    for (OpResult result : carried) {
      Value sum = loop.getResult(result), earlier = getAccumulator(result);
      if (earlier && sums.contains(earlier))
        sum = nn::AddOp::create(builder, result.getLoc(), sum.getType(), sum, after.lookup(earlier));
      after.map(result, sum);
    }
    for (Operation *op : behind)
      builder.clone(*op, after);
    SmallVector<Value> results;
    for (Value result : terminator.getOperands())
      results.push_back(known.contains(result)           ? known.lookup(result)
                        : nn::isTokens(result.getType()) ? loop.getResult(result)
                                                         : after.lookupOrDefault(result));
    terminator->setOperands(results);
    for (Operation *op : llvm::reverse(behind))
      op->erase();
    for (Operation *op : llvm::reverse(ops))
      op->erase();
  }

  /// An ascending loop of what leads to the whole values and nothing else.
  void makeWhole(OpBuilder &builder) {
    llvm::SetVector<Operation *> needed;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.omitBlockArguments = true;
    for (Value value : whole)
      (void)getBackwardSlice(value, &needed, options);
    if (descends)
      for (OpResult state : states)
        (void)getBackwardSlice(state, &needed, options);
    LoopBuilder loop(builder, function.getLoc(), train::Domain::Sequence, size);
    for (Value value : whole)
      loop.carryRows(value);
    // By the state: what the loop keeps of it for each trip.
    DenseMap<OpResult, Value> keys;
    for (OpResult state : states) {
      if (!needed.contains(state.getOwner()))
        continue;
      loop.carry(state, beginState(builder, state));
      if (descends) {
        auto type = cast<RankedTensorType>(state.getType());
        SmallVector<int64_t> shape(type.getShape());
        shape.front() *= trips;
        Value all = train::EmptyOp::create(builder, state.getLoc(), type.clone(shape));
        keys[state] = all;
        loop.carry(all, all);
      }
    }
    loop.begin();
    for (Operation *op : ops) {
      if (!needed.contains(op))
        continue;
      for (OpResult state : op->getResults())
        if (Value all = keys.lookup(state))
          loop.setCarried(all, train::UpdateOp::create(builder, op->getLoc(), loop.getCarried(all),
                                                       loop.getCarried(state), loop.getTrip()));
      emit(builder, loop, op);
    }
    loop.end();
    for (Value value : whole)
      known[value] = loop.getResult(value);
    for (auto [state, all] : keys)
      kept[state] = loop.getResult(all);
  }

  Value beginState(OpBuilder &builder, OpResult state) {
    return train::EmptyOp::create(builder, state.getLoc(), state.getType());
  }

  static Value getAccumulator(OpResult result) {
    return cast<nn::KernelOpInterface>(result.getOwner()).getAccumulator(result.getResultNumber());
  }

  /// What the first chunk adds to. Another sum is added behind the loop.
  Value beginSum(OpBuilder &builder, OpResult result) {
    Value earlier = getAccumulator(result);
    if (earlier && !sums.contains(earlier))
      return earlier;
    return nn::FillOp::create(builder, result.getLoc(), result.getType(), builder.getF32FloatAttr(0.0f));
  }

  void emit(OpBuilder &builder, LoopBuilder &loop, Operation *op) {
    const nn::SequenceUses &opUses = uses[op];
    SmallVector<Value> operands;
    for (auto [operand, use] : llvm::zip_equal(op->getOperands(), opUses.operands)) {
      bool isWhole = isWide(use) && operand.getDefiningOp();
      if (isWhole)
        operands.push_back(known.contains(operand) ? known.lookup(operand) : loop.getCarried(operand));
      else // a sum that is added to is carried
        operands.push_back(isWide(use) || use == SequenceUse::Sum ? operand : loop.lookup(operand));
    }
    Operation *chunk = builder.clone(*op);
    chunk->setOperands(operands);
    for (auto [result, copy, use] : llvm::zip_equal(op->getResults(), chunk->getResults(), opUses.results)) {
      if (use == SequenceUse::Rows || use == SequenceUse::None) {
        loop.map(result, copy);
      } else if (Value all =
                     nn::isCarried(use) && !loop.carries(result) ? kept.lookup(cast<OpResult>(result)) : Value()) {
        Value begin = train::SliceOp::create(builder, op->getLoc(), result.getType(), all, loop.getTrip());
        begin.getDefiningOp()->moveBefore(chunk);
        cast<nn::KernelOpInterface>(chunk).setAccumulator(cast<OpResult>(result).getResultNumber(), begin);
      } else if (loop.carries(result)) {
        cast<nn::KernelOpInterface>(chunk).setAccumulator(result.getResultNumber(), loop.getCarried(result));
        loop.setCarried(result, copy);
        if (use == SequenceUse::Before)
          loop.map(result, train::SliceOp::create(builder, op->getLoc(), copy.getType(), copy, loop.getTrip()));
      }
      if (whole.contains(result) && loop.carries(result))
        loop.updateRows(result, loop.lookup(result));
    }
  }

  func::FuncOp function;
  int64_t size, trips;                          // rows of a trip, and how many trips there are at most
  SmallVector<Operation *> before, ops, behind; // of the loops
  DenseMap<Operation *, nn::SequenceUses> uses; // of those within
  llvm::SetVector<Value> whole;                 // what is read with more than the op's rows
  DenseMap<Value, Value> known;                 // those that an earlier loop has made
  DenseSet<Value> sums, addedTo;                // over all rows; to everything before
  SmallVector<OpResult> carried;                // the ones and the others
  SmallVector<OpResult> states, statesBack;     // what ops carry forwards, and backwards
  DenseMap<OpResult, Value> kept;               // of states, what each trip begins with
  bool readsLater = false, descends = false;
};

struct ChunkSequence : impl::ChunkSequenceBase<ChunkSequence> {
  using ChunkSequenceBase::ChunkSequenceBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (size <= 0) {
      module.emitError() << "--chunk-size " << size.getValue() << ": give at least 1";
      return signalPassFailure();
    }
    DenseSet<Attribute> done;
    IRRewriter rewriter(&getContext());
    for (auto block : module.getOps<train::BlockOp>()) {
      if (block.getKind() != train::BlockKind::Layer)
        continue;
      for (NamedAttribute program : block.getPrograms()) {
        if (format::generates(program.getName().strref()) || !done.insert(program.getValue()).second)
          continue;
        func::FuncOp function = block.lookupFunction(program.getName());
        if (!function)
          return signalPassFailure();
        if (failed(Chunker(function, size, batch * llvm::divideCeil(sequence, size)).run()))
          return signalPassFailure();
        (void)runRegionDCE(rewriter, function->getRegions());
      }
    }
  }
};

} // namespace
} // namespace mebp
