// SPDX-License-Identifier: Apache-2.0
//
// Gives the head a value of each row, V = h w^T + b of the same h that its log-probabilities are of (mebpc
// --value-head): what an objective learns to expect, as PPO does. It begins at zero, so that it moves nothing at first.
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/Targets.h"
#include "dialects/nn/Head.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDVALUEHEAD
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddValueHead : impl::AddValueHeadBase<AddValueHead> {
  void runOnOperation() override {
    for (auto block : getOperation().getOps<train::BlockOp>()) {
      if (block.getKind() != train::BlockKind::Head)
        continue;
      func::FuncOp function = block.lookupFunction(format::logProbabilitiesProgram);
      if (!function)
        return signalPassFailure();
      addTo(block, function);
    }
  }

  static void addTo(train::BlockOp block, func::FuncOp function) {
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    auto head = terminator.getOperand(0).getDefiningOp<nn::LogProbabilityOp>();
    OpBuilder builder(head);
    Type ofRow = head.getLogProbabilities().getType();
    auto add = [&](std::string_view name, ArrayRef<int64_t> shape) {
      auto type = RankedTensorType::get(shape, getElementTypeOrSelf(ofRow));
      nn::ParameterOp parameter = declareFactor(block, name, type, head.getLoc());
      parameter.setTrainable(true);
      parameter.setInitialBoundAttr(builder.getF32FloatAttr(0.0f));
      return addFactor(block, function, parameter, name);
    };
    Value weight = add(format::valueHeadWeight, {1, nn::features(head.getX())}), bias = add(format::valueHeadBias, {1});
    auto values = nn::LinearOp::create(builder, head.getLoc(), ofRow, head.getX(), weight, bias, Value());
    unsigned result = terminator.getNumOperands();
    terminator.getOperandsMutable().append(values.getResult());
    (void)function.insertResult(result, ofRow, {});
    train::setResultPort(function, result, train::PortKind::Result, format::valuesPort);
  }
};

} // namespace
} // namespace mebp
