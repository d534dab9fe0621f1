// SPDX-License-Identifier: Apache-2.0
//
// Gives the head its loss: causal language modelling, cross-entropy of the next token.
#include "compiler/autodiff/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ATTACHOBJECTIVE
#include "compiler/autodiff/Passes.h.inc"

namespace {

struct AttachObjective : impl::AttachObjectiveBase<AttachObjective> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto block : module.getOps<train::BlockOp>()) {
      if (block.getKind() != train::BlockKind::Head)
        continue;
      func::FuncOp logits = block.lookupFunction(format::forwardProgram);
      func::FuncOp loss = logits ? makeLoss(logits) : logits;
      if (!loss)
        return signalPassFailure();
      logits.setName("head.logits");
      block.removeProgram(format::forwardProgram);
      block.setProgram(format::logitsProgram, logits.getSymName());
      block.setProgram(format::lossProgram, loss.getSymName());
    }
  }

  func::FuncOp makeLoss(func::FuncOp logits) {
    OpBuilder builder(logits);
    auto loss = cast<func::FuncOp>(builder.clone(*logits));
    loss.setName("head.loss");
    auto terminator = cast<func::ReturnOp>(loss.getBody().front().getTerminator());
    auto linear = terminator.getOperand(0).getDefiningOp<nn::LinearOp>();
    if (!linear || !linear->hasOneUse() || linear.getBias() || linear.getAddend()) {
      logits.emitError("the logits must come from a linear layer without a bias");
      return {};
    }
    auto labels = nn::getTokensType(1, builder.getI32Type());
    auto scalar = RankedTensorType::get({1, 1}, cast<RankedTensorType>(linear.getType()).getElementType());
    (void)loss.insertArgument(1, labels, {}, loss.getLoc());
    (void)loss.insertArgument(2, scalar, {}, loss.getLoc());
    train::setArgumentPort(loss, 1, train::PortKind::Batch, format::labelsPort);
    train::setArgumentPort(loss, 2, train::PortKind::Batch, format::scalePort);

    builder.setInsertionPoint(linear);
    Value value = nn::LinearCrossEntropyOp::create(builder, linear.getLoc(), scalar, linear.getX(), linear.getWeight(),
                                                   loss.getArgument(1), loss.getArgument(2));
    terminator.setOperand(0, value);
    linear.erase();
    loss.setFunctionType(builder.getFunctionType(loss.getArgumentTypes(), value.getType()));
    train::setResultPort(loss, 0, train::PortKind::Result, format::lossPort);
    return loss;
  }
};

} // namespace
} // namespace mebp
