// SPDX-License-Identifier: Apache-2.0
//
// Runs the functions of layers in chunks along the sequence (StreamBP, the transformer layer; exact).
//
// Terms: a token-wise op reads and writes the same rows; attention reads the keys and values of all earlier positions,
// which are therefore kept whole.
// Forward: one ascending loop. Each trip appends its keys and values to the whole ones before attention reads them;
// causality means that later ones are never missed.
// Backward: 1. an ascending loop recomputes the whole keys and values. 2. A descending loop does the rest, chunk by
// chunk: attention's pullback adds to the whole cotangents of keys and values. Queries of later chunks have already
// been there, and earlier queries cannot see this chunk, so the rows of this chunk are complete and go on to its
// projections in the same trip. Gradients of trainable parameters are carried and added to.
#include "compiler/rewrite/LoopBuilder.h"
#include "compiler/rewrite/Passes.h"

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

class Chunker {
public:
  Chunker(func::FuncOp function, int64_t size) : function(function), size(size) {
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    auto keepWhole = [&](ValueRange keysAndValues) {
      for (Value value : keysAndValues)
        if (value.getDefiningOp()) // the block's input is whole already
          whole.insert(value);
    };
    for (Operation *op : ops) {
      if (auto attention = dyn_cast<nn::AttentionOp>(op))
        keepWhole({attention.getK(), attention.getV()});
      else if (auto gradient = dyn_cast<nn::AttentionGradientOp>(op))
        keepWhole({gradient.getK(), gradient.getV()});
    }
  }

  void run() {
    if (ops.empty())
      return;
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    OpBuilder builder(ops.front());
    bool isBackward = llvm::any_of(ops, [](Operation *op) { return isa<nn::AttentionGradientOp>(op); });
    DenseMap<Value, Value> known; // whole values that an earlier loop has made
    if (isBackward)
      known = makeKeysAndValues(builder);

    LoopBuilder loop(builder, function.getLoc(), isBackward ? train::Domain::SequenceReversed : train::Domain::Sequence,
                     size);
    if (!isBackward)
      for (Value value : whole)
        loop.carryRows(value);
    for (Operation *op : ops)
      carryAccumulators(builder, loop, op);
    loop.carryTokenResults(terminator.getOperands());
    loop.begin();
    for (Operation *op : ops)
      if (!isMatrixOp(op))
        emit(builder, loop, op, known);
    loop.updateTokenResults(terminator.getOperands());
    loop.end();

    IRMapping after;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (Value left = loop.getResult(result))
          after.map(result, left);
    for (Operation *op : ops)
      if (isMatrixOp(op))
        builder.clone(*op, after);
    SmallVector<Value> results;
    for (Value result : terminator.getOperands())
      results.push_back(nn::isTokens(result.getType()) ? loop.getResult(result) : after.lookupOrDefault(result));
    terminator->setOperands(results);
    for (Operation *op : llvm::reverse(ops))
      op->erase();
  }

private:
  /// Sums of gradients of one parameter: they can wait for the loop's end.
  static bool isMatrixOp(Operation *op) {
    return !isa<nn::LinearWeightGradientOp>(op) && llvm::none_of(op->getOperandTypes(), nn::isTokens) &&
           llvm::none_of(op->getResultTypes(), nn::isTokens);
  }

  DenseMap<Value, Value> makeKeysAndValues(OpBuilder &builder) {
    llvm::SetVector<Operation *> needed;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.omitBlockArguments = true;
    for (Value value : whole)
      (void)getBackwardSlice(value, &needed, options);
    LoopBuilder loop(builder, function.getLoc(), train::Domain::Sequence, size);
    for (Value value : whole)
      loop.carryRows(value);
    loop.begin();
    for (Operation *op : ops)
      if (needed.contains(op))
        emit(builder, loop, op, DenseMap<Value, Value>());
    loop.end();
    DenseMap<Value, Value> known;
    for (Value value : whole)
      known[value] = loop.getResult(value);
    return known;
  }

  /// What a loop must begin with so that `op` can add to it.
  static void carryAccumulators(OpBuilder &builder, LoopBuilder &loop, Operation *op) {
    auto zeros = [&](Value like) {
      loop.carry(like, nn::FillOp::create(builder, op->getLoc(), like.getType(), builder.getF32FloatAttr(0.0f)));
    };
    if (auto gradient = dyn_cast<nn::AttentionGradientOp>(op)) {
      zeros(gradient.getDk());
      zeros(gradient.getDv());
    } else if (auto gradient = dyn_cast<nn::LinearWeightGradientOp>(op)) {
      zeros(gradient.getResult());
    }
  }

  void emit(OpBuilder &builder, LoopBuilder &loop, Operation *op, const DenseMap<Value, Value> &known) {
    auto wholeValue = [&](Value value) {
      if (!value.getDefiningOp())
        return value;
      return known.count(value) ? known.lookup(value) : loop.getCarried(value);
    };
    if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
      auto chunk = nn::AttentionOp::create(
          builder, op->getLoc(), attention.getOutput().getType(), attention.getLse().getType(),
          loop.lookup(attention.getQ()), wholeValue(attention.getK()), wholeValue(attention.getV()),
          attention.getHeadsAttr(), attention.getKvHeadsAttr(), attention.getScaleAttr(), attention.getWindowAttr());
      loop.map(attention.getOutput(), chunk.getOutput());
      loop.map(attention.getLse(), chunk.getLse());
    } else if (auto gradient = dyn_cast<nn::AttentionGradientOp>(op)) {
      auto chunk = nn::AttentionGradientOp::create(
          builder, op->getLoc(), gradient.getDq().getType(), gradient.getDk().getType(), gradient.getDv().getType(),
          loop.lookup(gradient.getQ()), wholeValue(gradient.getK()), wholeValue(gradient.getV()),
          loop.lookup(gradient.getO()), loop.lookup(gradient.getLse()), loop.lookup(gradient.getCotangent()),
          loop.getCarried(gradient.getDk()), loop.getCarried(gradient.getDv()), gradient.getHeadsAttr(),
          gradient.getKvHeadsAttr(), gradient.getScaleAttr(), gradient.getWindowAttr());
      loop.map(gradient.getDq(), chunk.getDq());
      for (auto [original, sum] : {std::pair<Value, Value>(gradient.getDk(), chunk.getDk()),
                                   std::pair<Value, Value>(gradient.getDv(), chunk.getDv())}) {
        loop.setCarried(original, sum);
        loop.map(original, train::SliceOp::create(builder, op->getLoc(), sum.getType(), sum, loop.getTrip()));
      }
    } else if (auto gradient = dyn_cast<nn::LinearWeightGradientOp>(op)) {
      loop.setCarried(gradient.getResult(), nn::LinearWeightGradientOp::create(
                                                builder, op->getLoc(), gradient.getType(),
                                                loop.lookup(gradient.getDy()), loop.lookup(gradient.getX()),
                                                loop.getCarried(gradient.getResult()), gradient.getAlphaAttr()));
    } else {
      loop.clone(op);
    }
    for (Value result : op->getResults())
      if (whole.contains(result) && loop.carries(result))
        loop.updateRows(result, loop.lookup(result));
  }

  func::FuncOp function;
  int64_t size;
  SmallVector<Operation *> ops;
  llvm::SetVector<Value> whole; // keys and values
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
      for (auto [use, name] : block.getPrograms()) {
        if (!done.insert(name).second)
          continue;
        func::FuncOp function = block.lookupFunction(use);
        if (!function)
          return signalPassFailure();
        Chunker(function, size).run();
        (void)runRegionDCE(rewriter, function->getRegions());
      }
    }
  }
};

} // namespace
} // namespace mebp
