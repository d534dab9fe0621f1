// SPDX-License-Identifier: Apache-2.0
//
// Linear(x, weight, bias) {transposed}: `transposed` where the weight is stored in by out.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Parameters.h"

using namespace mlir;
using namespace mebp;

namespace {

/// MatMul or Gemm with a parameter, or the transpose of one.
struct RaiseProduct : NodePattern {
  RaiseProduct(MLIRContext *context, StringRef op) : NodePattern(context, op) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (root.getInputs().size() < 2)
      return false;
    Value weight = root.getInputs()[1];
    bool isTransposed = true;
    if (nn::OnnxOp transpose = getNode(weight, "Transpose")) {
      weight = transpose.getInputs()[0];
      isTransposed = false;
    }
    if (!weight.getDefiningOp<nn::ReadParameterOp>() || getShape(weight).size() != 2)
      return false;
    SmallVector<Value> inputs(root.getInputs());
    inputs[1] = weight;
    if (inputs.size() == 3 && !isParameterVector(inputs[2], getShape(root.getOutputs()[0]).back()))
      return false;
    replaceByNode(rewriter, root, "Linear", inputs,
                  rewriter.getNamedAttr("transposed", rewriter.getBoolAttr(isTransposed)));
    return true;
  }
};

struct RaiseBias : NodePattern {
  explicit RaiseBias(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value product, Value bias) {
      nn::OnnxOp linear = getNode(product, "Linear");
      if (!linear || linear.getInputs().size() != 2 || !isParameterVector(bias, getShape(product).back()))
        return false;
      replaceByNode(rewriter, root, "Linear", {linear.getInputs()[0], linear.getInputs()[1], bias},
                    linear.getNodeAttributesAttr().getValue());
      return true;
    });
  }
};

/// A bias that is expanded to what it is added to (GPT-NeoX-Japanese).
struct DropExpansion : NodePattern {
  explicit DropExpansion(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value x, Value expanded) {
      nn::OnnxOp expand = getNode(expanded, "Expand");
      if (!expand || x.getType() != expanded.getType() || !isParameterVector(expand.getInputs()[0], getShape(x).back()))
        return false;
      replaceByNode(rewriter, root, "Add", {x, expand.getInputs()[0]});
      return true;
    });
  }
};

} // namespace

void mebp::populateRaiseLinear(RewritePatternSet &patterns) {
  patterns.add<RaiseProduct>(patterns.getContext(), "MatMul");
  patterns.add<RaiseProduct>(patterns.getContext(), "Gemm");
  patterns.add<RaiseBias, DropExpansion>(patterns.getContext());
}
