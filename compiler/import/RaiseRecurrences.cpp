// SPDX-License-Identifier: Apache-2.0
//
// Decay(x, bias, rate): −exp(rate) softplus(x + bias), the logarithm of what a recurrence keeps of its state from row
// to row. The bias may be missing.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/Parameters.h"

using namespace mlir;
using namespace mebp;

namespace {

bool isParameter(Value value) { return value.getDefiningOp<nn::ReadParameterOp>() != nullptr; }

/// The parameter that −exp(..) is of; null where it is none.
Value matchRate(Value value) {
  nn::OnnxOp negative = getNode(value, "Neg");
  nn::OnnxOp power = negative ? getNode(negative.getInputs()[0], "Exp") : nn::OnnxOp();
  return power && isParameter(power.getInputs()[0]) ? power.getInputs()[0] : Value();
}

struct RaiseDecay : NodePattern {
  explicit RaiseDecay(MLIRContext *context) : NodePattern(context, "Mul") {}

  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value left, Value right) {
      Value rate = matchRate(left);
      nn::OnnxOp softplus = rate ? getNode(right, "Softplus") : nn::OnnxOp();
      if (!softplus)
        return false;
      SmallVector<Value> inputs = {softplus.getInputs()[0]};
      matchEitherWay(getNode(inputs[0], "Add"), [&](Value x, Value bias) {
        if (!isParameter(bias) || isParameter(x))
          return false;
        inputs = {x, bias};
        return true;
      });
      const int64_t width = getShape(inputs[0]).back();
      if (!llvm::all_of(ArrayRef(inputs).drop_front(), [&](Value each) { return isParameterVector(each, width); }) ||
          !isParameterVector(rate, width))
        return false;
      inputs.push_back(rate);
      replaceByNode(rewriter, root, "Decay", inputs);
      return true;
    });
  }
};

} // namespace

void mebp::populateRaiseRecurrences(RewritePatternSet &patterns) { patterns.add<RaiseDecay>(patterns.getContext()); }
