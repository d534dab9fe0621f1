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
// 5. A trained weight needs one: p is known only when the maximum and the sum are. Its gradient is added up in place,
//    tile by tile. So does an adapter: B is as tall as the weight and tiled with it, and what it is multiplied with
//    gets its cotangent from the same sweep. So does dx where the entropy has a cotangent: what a tile adds to it
//    depends on the mean of all logits.
#include "compiler/rewrite/LoopBuilder.h"
#include "compiler/rewrite/LowRank.h"
#include "compiler/rewrite/Passes.h"
#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Head.h"
#include "dialects/nn/Linear.h"

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

  static bool isSameHead(nn::LogProbabilityOp forward, nn::LogProbabilityGradientOp gradient) {
    return forward.getX() == gradient.getX() && forward.getWeight() == gradient.getWeight() &&
           forward.getLabels() == gradient.getLabels() && forward.getLow() == gradient.getLow() &&
           forward.getLowWeight() == gradient.getLowWeight() &&
           forward.getLowAlphaAttr() == gradient.getLowAlphaAttr() && forward.getBias() == gradient.getBias() &&
           forward.getSoftcapAttr() == gradient.getSoftcapAttr();
  }

  static void shareSweep(func::FuncOp function) {
    for (auto gradient : function.getOps<nn::LogProbabilityGradientOp>())
      for (auto forward : llvm::make_early_inc_range(function.getOps<nn::LogProbabilityOp>()))
        if (isSameHead(forward, gradient) &&
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
        sweepForInput(builder, loop, gradient);
      else if (auto gradient = dyn_cast<nn::LogProbabilityWeightGradientOp>(op))
        sweepForWeight(builder, loop, gradient);
      else if (auto gradient = dyn_cast<nn::LogProbabilityBiasGradientOp>(op))
        sweepForBias(builder, loop, gradient);
      else if (auto gradient = dyn_cast<nn::LogProbabilityLowGradientOp>(op))
        sweepForLow(builder, loop, gradient);
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
    auto statistic = nn::getTokensType(1, cast<RankedTensorType>(x.getType()).getElementType());

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
    Tile tile = makeLogits(builder, loop, tiles, op);
    SmallVector<Value> operands = {tile.logits, labels};
    SmallVector<Type> types = {tile.logits.getType()};
    for (Value value : running) {
      operands.push_back(tiles.getCarried(value));
      types.push_back(value.getType());
    }
    auto next = nn::LogProbabilityTileOp::create(builder, location, types, operands);
    if (op.getSoftcapAttr())
      next.setSoftcapAttr(op.getSoftcapAttr());
    for (auto [value, updated] : llvm::zip(running, next->getResults().drop_front()))
      tiles.setCarried(value, updated);
    if (dx)
      tiles.setCarried(running.back(),
                       nn::LinearInputGradientOp::create(builder, location, running.back().getType(), next.getP(),
                                                         tile.weight, next.getNewAccumulator()));
    tiles.end();

    for (Value &value : running)
      value = tiles.getResult(value);
    auto head = nn::LogProbabilityFromTilesOp::create(
        builder, location, statistic, statistic, dx ? dx.getType() : Type(), labels, running[0], running[1], running[2],
        running[3], dx ? loop.lookup(coefficients) : Value(), dx ? running[4] : Value(), dx ? weight : Value(),
        op.getSoftcapAttr());
    softmax.assign(running.begin(), running.end());
    loop.map(op.getLogProbabilities(), head.getLogProbabilities());
    loop.map(op.getEntropy(), head.getEntropy());
    if (dx)
      loop.map(dx, head.getDx());
  }

  void sweepForInput(OpBuilder &builder, LoopBuilder &loop, nn::LogProbabilityGradientOp op) {
    if (!op.getEntropyCoefficients())
      return sweep(builder, loop, op, op.getCoefficients(), op.getDx());
    sweep(builder, loop, op, Value(), Value());
    for (Value ofRows : {op.getCoefficients(), op.getEntropyCoefficients()})
      (void)loop.lookup(ofRows); // their rows, before there is a loop within this one
    Value dx = op.getDx();
    LoopBuilder tiles(builder, op.getLoc(), train::Domain::WeightRows, columns, op.getWeight());
    tiles.carry(dx, fill(builder, loop.lookup(op.getX()).getType(), 0.0f, op.getLoc()));
    tiles.begin();
    Tile tile = makeLogits(builder, loop, tiles, op);
    Value sum = tiles.getCarried(dx);
    tiles.setCarried(dx, nn::LinearInputGradientOp::create(builder, op.getLoc(), sum.getType(),
                                                           pullBack(builder, loop, op, tile), tile.weight, sum));
    tiles.end();
    loop.map(dx, tiles.getResult(dx));
  }

  /// The cotangents of a tile's logits times x are added to its rows of the weight's gradient.
  void sweepForWeight(OpBuilder &builder, LoopBuilder &loop, nn::LogProbabilityWeightGradientOp op) {
    Value sum = op.getDweight();
    LoopBuilder tiles(builder, op.getLoc(), train::Domain::WeightRows, columns, op.getWeight());
    tiles.carry(sum, loop.getCarried(sum));
    tiles.begin();
    Value dlogits = pullBack(builder, loop, op, makeLogits(builder, loop, tiles, op));
    addToRows(builder, tiles, sum, dlogits, loop.lookup(op.getX()), 1.0f);
    tiles.end();
    loop.setCarried(sum, tiles.getResult(sum));
  }

  /// The cotangents of a tile's logits are added to its elements of the bias's gradient.
  void sweepForBias(OpBuilder &builder, LoopBuilder &loop, nn::LogProbabilityBiasGradientOp op) {
    Value sum = op.getDbias();
    LoopBuilder tiles(builder, op.getLoc(), train::Domain::WeightRows, columns, op.getWeight());
    tiles.carry(sum, loop.getCarried(sum));
    tiles.begin();
    Value dlogits = pullBack(builder, loop, op, makeLogits(builder, loop, tiles, op));
    // Added behind it: only rows of a matrix can be copied, as a kernel's own accumulator would be.
    Value elements = slice(builder, tiles, tiles.getCarried(sum));
    Value added = nn::BiasGradientOp::create(builder, op.getLoc(), elements.getType(), dlogits, Value());
    tiles.updateRows(sum, nn::AddOp::create(builder, op.getLoc(), elements.getType(), added, elements));
    tiles.end();
    loop.setCarried(sum, tiles.getResult(sum));
  }

  /// Times B, they are added to the cotangent of `low`; times `low`, to the tile's rows of B's gradient, if it is
  /// trained.
  void sweepForLow(OpBuilder &builder, LoopBuilder &loop, nn::LogProbabilityLowGradientOp op) {
    Value dlow = op.getDlow(), sum = op.getDlowWeight(), low = loop.lookup(op.getLow());
    LoopBuilder tiles(builder, op.getLoc(), train::Domain::WeightRows, columns, op.getWeight());
    tiles.carry(dlow, fill(builder, low.getType(), 0.0f, op.getLoc()));
    if (sum)
      tiles.carry(sum, loop.getCarried(sum));
    tiles.begin();
    Tile tile = makeLogits(builder, loop, tiles, op);
    Value dlogits = pullBack(builder, loop, op, tile);
    tiles.setCarried(dlow, nn::LinearInputGradientOp::create(builder, op.getLoc(), low.getType(), dlogits,
                                                             tile.lowWeight, tiles.getCarried(dlow), lowAlpha(op)));
    if (sum)
      addToRows(builder, tiles, sum, dlogits, low, lowAlpha(op));
    tiles.end();
    loop.map(dlow, tiles.getResult(dlow));
    if (sum)
      loop.setCarried(sum, tiles.getResult(sum));
  }

  template <typename Op> static float lowAlpha(Op op) {
    return op.getLowAlpha() ? op.getLowAlpha()->convertToFloat() : 1.0f;
  }

  /// A parameter's rows of this trip, or elements of a vector.
  static Value slice(OpBuilder &builder, LoopBuilder &tiles, Value matrix) {
    Type element = cast<RankedTensorType>(matrix.getType()).getElementType();
    SmallVector<int64_t> sizes(cast<RankedTensorType>(matrix.getType()).getShape());
    sizes[0] = ShapedType::kDynamic;
    auto type = RankedTensorType::get(sizes, element);
    return train::SliceOp::create(builder, matrix.getLoc(), type, matrix, tiles.getTrip());
  }

  struct Tile {
    Value weight, lowWeight, logits; // lowWeight: null where the head has no adapter
  };

  template <typename Op> static Tile makeLogits(OpBuilder &builder, LoopBuilder &loop, LoopBuilder &tiles, Op op) {
    Location location = op.getLoc();
    Value x = loop.lookup(op.getX()), weight = slice(builder, tiles, op.getWeight());
    Type type = nn::getTokensType(ShapedType::kDynamic, cast<RankedTensorType>(x.getType()).getElementType());
    Value bias = op.getBias() ? slice(builder, tiles, op.getBias()) : Value();
    if (!op.getLow())
      return {weight, Value(), nn::LinearOp::create(builder, location, type, x, weight, bias, Value())};
    Value low = loop.lookup(op.getLow()), lowWeight = slice(builder, tiles, op.getLowWeight());
    if (isLowRank(nn::features(low), nn::features(x)))
      return {weight, lowWeight,
              nn::LinearOp::create(builder, location, type, x, weight, bias, Value(), low, lowWeight,
                                   builder.getF32FloatAttr(1.0f), builder.getF32FloatAttr(lowAlpha(op)))};
    Value addend = nn::LinearOp::create(builder, location, type, low, lowWeight, Value(), Value(), lowAlpha(op));
    return {weight, lowWeight, nn::LinearOp::create(builder, location, type, x, weight, bias, addend)};
  }

  /// The cotangents of a tile's logits, now that the softmax is known.
  template <typename Op> Value pullBack(OpBuilder &builder, LoopBuilder &loop, Op op, const Tile &tile) {
    Value ofEntropy = op.getEntropyCoefficients();
    return nn::LogProbabilityLogitsGradientOp::create(
        builder, op.getLoc(), tile.logits.getType(), tile.logits, loop.lookup(op.getLabels()), softmax[0], softmax[1],
        softmax[3], loop.lookup(op.getCoefficients()), ofEntropy ? softmax[2] : Value(),
        ofEntropy ? loop.lookup(ofEntropy) : Value(), op.getSoftcapAttr());
  }

  /// Adds alpha dyᵀ x to this tile's rows of what is carried for `sum`.
  static void addToRows(OpBuilder &builder, LoopBuilder &tiles, Value sum, Value dy, Value x, float alpha) {
    Value rows = slice(builder, tiles, tiles.getCarried(sum));
    tiles.updateRows(sum, nn::LinearWeightGradientOp::create(builder, sum.getLoc(), rows.getType(), dy, x, rows,
                                                             builder.getF32FloatAttr(alpha)));
  }

  SmallVector<Value> softmax; // what the last sweep of a tile of rows has left
};

} // namespace
} // namespace mebp
