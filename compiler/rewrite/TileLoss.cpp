// SPDX-License-Identifier: Apache-2.0
//
// Tiles the head and its loss over token rows and over the vocabulary (StreamBP, lm-head and loss).
//
// 1. The whole function becomes the body of a loop over tiles of token rows: all of it is token-wise.
// 2. In it, nn.linear_cross_entropy becomes a loop over tiles of the weight's rows: logits of one tile, then the
//    running maximum, the running sum of exponentials without the label's, and the label's own logit.
// 3. For the objective, p w is summed beside them and rescaled with the maximum, as attention does with its values. So
//    dx = scale (Σ p w − (1 − p_label) w_label) needs no second sweep, and no difference of nearly equal numbers.
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
      for (std::string_view program : {format::lossProgram, format::objectiveProgram})
        if (block.getProgram(program)) {
          func::FuncOp function = block.lookupFunction(program);
          if (!function)
            return signalPassFailure();
          tile(function);
        }
  }

  void tile(func::FuncOp function) {
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    if (ops.empty())
      return;
    for (Operation *op : ops)
      if (nn::mixesRows(op)) {
        op->emitOpError("reads rows beside its own, and the head runs on some rows at a time; this is a bug in mebpc");
        return signalPassFailure();
      }
    OpBuilder builder(ops.front());

    LoopBuilder loop(builder, function.getLoc(), train::Domain::TokenRows, rows);
    for (Value result : terminator.getOperands())
      if (!nn::isTokens(result.getType()))
        loop.carry(result, fill(builder, result.getType(), 0.0f, result.getLoc()));
    loop.carryTokenResults(terminator.getOperands());
    loop.begin();
    for (Operation *op : ops) {
      if (auto loss = dyn_cast<nn::LinearCrossEntropyOp>(op))
        emitLoss(builder, loop, loss, loss.getLoss(), Value());
      else if (auto gradient = dyn_cast<nn::LinearCrossEntropyGradientOp>(op))
        emitLoss(builder, loop, gradient, gradient.getLoss(), gradient.getDx());
      else
        loop.clone(op);
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

  template <typename Op> void emitLoss(OpBuilder &builder, LoopBuilder &loop, Op op, Value loss, Value dx) {
    Location location = op.getLoc();
    Value x = loop.lookup(op.getX()), labels = loop.lookup(op.getLabels()), weight = op.getWeight();
    Type element = cast<RankedTensorType>(x.getType()).getElementType();
    constexpr int64_t dynamic = ShapedType::kDynamic;
    auto statistic = nn::getTokensType(1, element);
    auto logitsType = nn::getTokensType(dynamic, element);
    auto tileType = RankedTensorType::get({dynamic, nn::features(weight)}, element);

    Value max = fill(builder, statistic, -std::numeric_limits<float>::infinity(), location);
    Value sum = fill(builder, statistic, 0.0f, location);
    Value target = fill(builder, statistic, 0.0f, location);
    LoopBuilder tiles(builder, location, train::Domain::WeightRows, columns, weight);
    tiles.carry(max, max);
    tiles.carry(sum, sum);
    tiles.carry(target, target);
    Value product;
    if (dx) {
      product = fill(builder, x.getType(), 0.0f, location);
      tiles.carry(product, product);
    }
    tiles.begin();
    Value tile = train::SliceOp::create(builder, location, tileType, weight, tiles.getTrip());
    Value logits = nn::LinearOp::create(builder, location, logitsType, x, tile, Value(), Value());
    auto running = nn::CrossEntropyTileOp::create(builder, location, logitsType, statistic, statistic, statistic,
                                                  dx ? product.getType() : Type(), logits, labels,
                                                  tiles.getCarried(max), tiles.getCarried(sum),
                                                  tiles.getCarried(target), dx ? tiles.getCarried(product) : Value());
    tiles.setCarried(max, running.getNewMax());
    tiles.setCarried(sum, running.getNewSum());
    tiles.setCarried(target, running.getNewTarget());
    if (dx)
      tiles.setCarried(product, nn::LinearInputGradientOp::create(builder, location, product.getType(), running.getP(),
                                                                  tile, running.getNewAccumulator()));
    tiles.end();

    auto result = nn::CrossEntropyOp::create(builder, location, loss.getType(), dx ? dx.getType() : Type(), labels,
                                             tiles.getResult(max), tiles.getResult(sum), tiles.getResult(target),
                                             op.getScale(), loop.getCarried(loss),
                                             dx ? tiles.getResult(product) : Value(), dx ? weight : Value());
    loop.setCarried(loss, result.getLoss());
    if (dx)
      loop.map(dx, result.getDx());
  }
};

} // namespace
} // namespace mebp
