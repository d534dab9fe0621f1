// SPDX-License-Identifier: Apache-2.0
//
// Gives the head what every objective is a function of: the log-probability of each row's label. An objective itself is
// arithmetic on these outside of the programs, which take its derivative by each of them as coefficients.
#include "compiler/autodiff/Passes.h"
#include "dialects/nn/Activations.h"
#include "dialects/nn/Head.h"
#include "dialects/nn/Linear.h"

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
      func::FuncOp logProbabilities = logits ? makeLogProbabilities(logits) : logits;
      if (!logProbabilities)
        return signalPassFailure();
      logits.setName("head.logits");
      block.removeProgram(format::forwardProgram);
      block.setProgram(format::logitsProgram, logits.getSymName());
      block.setProgram(format::logProbabilitiesProgram, logProbabilities.getSymName());
    }
  }

  /// A linear layer whose result goes into one other value.
  static bool isAlone(nn::LinearOp linear) { return linear && linear->hasOneUse(); }

  func::FuncOp makeLogProbabilities(func::FuncOp logits) {
    OpBuilder builder(logits);
    auto function = cast<func::FuncOp>(builder.clone(*logits));
    function.setName("head.log_probabilities");
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    auto softcap = terminator.getOperand(0).getDefiningOp<nn::SoftcapOp>();
    auto linear = (softcap ? softcap.getX() : terminator.getOperand(0)).getDefiningOp<nn::LinearOp>();
    auto adapter = linear && linear.getAddend() ? linear.getAddend().getDefiningOp<nn::LinearOp>() : nn::LinearOp();
    bool adapts = isAlone(adapter) && !adapter.getAddend() && !adapter.getBias();
    if (!isAlone(linear) || (linear.getAddend() && !adapts)) {
      logits.emitError("the logits must come from a linear layer, with or without a softcap");
      return {};
    }
    (void)function.insertArgument(1, nn::getTokensType(1, builder.getI32Type()), {}, function.getLoc());
    train::setArgumentPort(function, 1, train::PortKind::Batch, format::labelsPort);

    builder.setInsertionPoint(linear);
    Type ofRow = nn::getTokensType(1, cast<RankedTensorType>(linear.getType()).getElementType());
    auto head = nn::LogProbabilityOp::create(
        builder, linear.getLoc(), ofRow, ofRow, linear.getX(), linear.getWeight(), function.getArgument(1),
        adapter ? adapter.getX() : Value(), adapter ? adapter.getWeight() : Value(), linear.getBias(),
        adapter ? adapter.getAlphaAttr() : FloatAttr(), softcap ? softcap.getSoftcapAttr() : FloatAttr());
    terminator->setOperands(head.getResults());
    if (softcap)
      softcap.erase();
    linear.erase();
    if (adapter)
      adapter.erase();
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), head.getResultTypes()));
    function.setResAttrsAttr({});
    train::setResultPort(function, 0, train::PortKind::Result, format::logProbabilitiesPort);
    train::setResultPort(function, 1, train::PortKind::Result, format::entropyPort);
    return function;
  }
};

} // namespace
} // namespace mebp
