// SPDX-License-Identifier: Apache-2.0
//
// Tiles the head over token rows and over the vocabulary (StreamBP, lm-head and loss).
//
// 1. Where a function has both the log-probabilities and their gradient, the gradient gives both.
// 2. The whole function becomes the body of a loop over tiles of token rows: all of it is token-wise. Gradients of
//    parameters are summed from tile to tile.
// 3. In it, nn.log_probability becomes a loop over tiles of the weight's rows: logits of one tile, then the running
//    maximum, the running sums of exponentials and of their products with the logits, both without the label's, and the
//    label's own logit.
// 4. For the gradient, p w is summed beside them and rescaled with the maximum, as attention does with its values. So
//    dx = coefficients ((1 - p_label) w_label - sum p w) needs no second sweep, and no difference of nearly equal
//    numbers.
// 5. A trained weight needs one: p is known only when the maximum and the sum are. Its gradient is added up tile by
// tile
//    in place.
#include "compiler/rewrite/LoopBuilder.h"
#include "compiler/rewrite/Passes.h"

#include <limits>

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_TILELOSS
#include "compiler/rewrite/Passes.h.inc"

namespace {

struct TileLoss : impl::TileLossBase<TileLoss> {
  using TileLossBase::TileLossBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (rows <= 0 || columns <= 0) {
      module.emitError() << "a loss tile of " << rows.getValue() << " x " << columns.getValue()
                         << ": give at least 1 x 1";
      return signalPassFailure();
    }
    for (auto block : module.getOps<train::BlockOp>())
      for (std::string_view program : {format::logProbabilitiesProgram, format::objectiveProgram})
        if (block.getProgram(program)) {
          func::FuncOp function = block.lookupFunction(program);
          if (!function)
            return signalPassFailure();
          tile(function);
        }
  }

  static void shareSweep(func::FuncOp function) {
    for (auto gradient : function.getOps<nn::LogProbabilityGradientOp>())
      for (auto forward : llvm::make_early_inc_range(function.getOps<nn::LogProbabilityOp>()))
        if (forward->getOperands() == gradient->getOperands().drop_back() &&
            llvm::all_of(forward->getUsers(), [&](Operation *user) { return gradient->isBeforeInBlock(user); })) {
          forward->replaceAllUsesWith(gradient->getResults().drop_back());
          forward->erase();
        }
  }

  static bool isReturned(Value value) {
    return llvm::all_of(value.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
  }

  void tile(func::FuncOp function) {
    shareSweep(function);
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    if (ops.empty())
      return;
    for (Operation *op : ops)
      if (nn::mixesRows(op) || llvm::any_of(nn::getSums(op), [&](Value sum) { return !isReturned(sum); })) {
        op->emitOpError("needs rows beside its own, and the head runs on some rows at a time; this is a bug in mebpc");
        return signalPassFailure();
      }
    OpBuilder builder(ops.front());

    LoopBuilder loop(builder, function.getLoc(), train::Domain::TokenRows, rows);
    for (Operation *op : ops)
      for (OpResult sum : nn::getSums(op))
        loop.carry(sum, fill(builder, sum.getType(), 0.0f, sum.getLoc()));
    loop.carryTokenResults(terminator.getOperands());
    loop.begin();
    for (Operation *op : ops) {
      if (auto head = dyn_cast<nn::LogProbabilityOp>(op))
        sweep(builder, loop, head, Value(), Value());
      else if (auto gradient = dyn_cast<nn::LogProbabilityGradientOp>(op))
        sweep(builder, loop, gradient, gradient.getCoefficients(), gradient.getDx());
      else if (auto gradient = dyn_cast<nn::LogProbabilityWeightGradientOp>(op))
        sweepAgain(builder, loop, gradient);
      else
        loop.addSums(op, loop.clone(op));
    }
    loop.updateTokenResults(terminator.getOperands());
    loop.end();
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(loop.getResult(operand.get()));
    for (Operation *op : llvm::reverse(ops))
      op->erase();
  }

  static Value fill(OpBuilder &builder, Type type, float value, Location location) {
    return nn::FillOp::create(builder, location, type, builder.getF32FloatAttr(value));
  }

  template <typename Op> void sweep(OpBuilder &builder, LoopBuilder &loop, Op op, Value coefficients, Value dx) {
    Location location = op.getLoc();
    Value x = loop.lookup(op.getX()), labels = loop.lookup(op.getLabels()), weight = op.getWeight();
    Type element = cast<RankedTensorType>(x.getType()).getElementType();
    constexpr int64_t dynamic = ShapedType::kDynamic;
    auto statistic = nn::getTokensType(1, element);
    auto logitsType = nn::getTokensType(dynamic, element);
    auto tileType = RankedTensorType::get({dynamic, nn::features(weight)}, element);

    // The maximum, the sum, the weighted sum, the label's logit.
    SmallVector<Value> running = {fill(builder, statistic, -std::numeric_limits<float>::infinity(), location)};
    while (running.size() < 4)
      running.push_back(fill(builder, statistic, 0.0f, location));
    if (dx)
      running.push_back(fill(builder, x.getType(), 0.0f, location));
    LoopBuilder tiles(builder, location, train::Domain::WeightRows, columns, weight);
    for (Value value : running)
      tiles.carry(value, value);
    tiles.begin();
    Value tile = train::SliceOp::create(builder, location, tileType, weight, tiles.getTrip());
    Value logits = nn::LinearOp::create(builder, location, logitsType, x, tile, Value(), Value());
    SmallVector<Value> operands = {logits, labels};
    SmallVector<Type> types = {logitsType};
    for (Value value : running) {
      operands.push_back(tiles.getCarried(value));
      types.push_back(value.getType());
    }
    auto next = nn::LogProbabilityTileOp::create(builder, location, types, operands);
    for (auto [value, updated] : llvm::zip(running, next->getResults().drop_front()))
      tiles.setCarried(value, updated);
    if (dx)
      tiles.setCarried(running.back(), nn::LinearInputGradientOp::create(builder, location, running.back().getType(),
                                                                         next.getP(), tile, next.getNewAccumulator()));
    tiles.end();

    for (Value &value : running)
      value = tiles.getResult(value);
    auto head = nn::LogProbabilityFromTilesOp::create(
        builder, location, statistic, statistic, dx ? dx.getType() : Type(), labels, running[0], running[1], running[2],
        running[3], dx ? loop.lookup(coefficients) : Value(), dx ? running[4] : Value(), dx ? weight : Value());
    softmax.assign(running.begin(), running.end());
    loop.map(op.getLogProbabilities(), head.getLogProbabilities());
    loop.map(op.getEntropy(), head.getEntropy());
    if (dx)
      loop.map(dx, head.getDx());
  }

  /// The cotangents of a tile's logits times x are added to its rows of the weight's gradient.
  void sweepAgain(OpBuilder &builder, LoopBuilder &loop, nn::LogProbabilityWeightGradientOp op) {
    Location location = op.getLoc();
    Value x = loop.lookup(op.getX()), labels = loop.lookup(op.getLabels()), weight = op.getWeight();
    Value coefficients = loop.lookup(op.getCoefficients()), sum = op.getResult();
    Type element = cast<RankedTensorType>(x.getType()).getElementType();
    auto logitsType = nn::getTokensType(ShapedType::kDynamic, element);
    auto tileType = RankedTensorType::get({ShapedType::kDynamic, nn::features(weight)}, element);
    LoopBuilder tiles(builder, location, train::Domain::WeightRows, columns, weight);
    tiles.carry(sum, loop.getCarried(sum));
    tiles.begin();
    Value tile = train::SliceOp::create(builder, location, tileType, weight, tiles.getTrip());
    Value logits = nn::LinearOp::create(builder, location, logitsType, x, tile, Value(), Value());
    auto gradient = nn::LogProbabilityLogitsGradientOp::create(builder, location, logitsType, logits, labels,
                                                               softmax[0], softmax[1], softmax[3], coefficients);
    Value rows = train::SliceOp::create(builder, location, tileType, tiles.getCarried(sum), tiles.getTrip());
    Value added = nn::LinearWeightGradientOp::create(builder, location, tileType, gradient, x, rows,
                                                     builder.getF32FloatAttr(1.0f));
    tiles.updateRows(sum, added);
    tiles.end();
    loop.setCarried(sum, tiles.getResult(sum));
  }

  SmallVector<Value> softmax; // what the last sweep of a tile of rows has left
};

} // namespace
} // namespace mebp
