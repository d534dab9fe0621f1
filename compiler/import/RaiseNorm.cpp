// SPDX-License-Identifier: Apache-2.0
//
// RMS norm and layer norm, as their formulas are spelled out.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"

using namespace mlir;
using namespace mebp;

namespace {

/// The x of mean(x²) over the last axis.
Value matchMeanSquare(Value value) {
  nn::OnnxOp mean = getNode(value, "ReduceMean");
  if (!mean)
    return {};
  Value square = mean.getInputs()[0];
  if (nn::OnnxOp power = getNode(square, "Pow"))
    return isSplat(power.getInputs()[1], 2) ? power.getInputs()[0] : Value();
  nn::OnnxOp product = getNode(square, "Mul");
  return product && product.getInputs()[0] == product.getInputs()[1] ? product.getInputs()[0] : Value();
}

struct RootMeanSquare {
  Value x;
  double epsilon;
};

/// x and epsilon of mean(x²) + epsilon.
std::optional<RootMeanSquare> matchShiftedMeanSquare(Value value) {
  std::optional<RootMeanSquare> result;
  matchEitherWay(getNode(value, "Add"), [&](Value mean, Value epsilon) {
    Value x = matchMeanSquare(mean);
    auto number = getSplat(epsilon);
    if (!x || !number)
      return false;
    result = {x, *number};
    return true;
  });
  return result;
}

/// x and epsilon of sqrt(mean(x²) + epsilon).
std::optional<RootMeanSquare> matchRoot(Value value) {
  if (nn::OnnxOp root = getNode(value, "Sqrt"))
    return matchShiftedMeanSquare(root.getInputs()[0]);
  nn::OnnxOp power = getNode(value, "Pow");
  return power && isSplat(power.getInputs()[1], 0.5) ? matchShiftedMeanSquare(power.getInputs()[0]) : std::nullopt;
}

/// x and epsilon of 1 / sqrt(mean(x²) + epsilon).
std::optional<RootMeanSquare> matchInverseRoot(Value value) {
  if (nn::OnnxOp reciprocal = getNode(value, "Reciprocal"))
    return matchRoot(reciprocal.getInputs()[0]);
  if (nn::OnnxOp quotient = getNode(value, "Div"))
    return isSplat(quotient.getInputs()[0], 1) ? matchRoot(quotient.getInputs()[1]) : std::nullopt;
  nn::OnnxOp power = getNode(value, "Pow");
  return power && isSplat(power.getInputs()[1], -0.5) ? matchShiftedMeanSquare(power.getInputs()[0]) : std::nullopt;
}

/// Whether two values are one, or the same difference written down twice.
bool areSame(Value a, Value b) {
  nn::OnnxOp left = getNode(a, "Sub"), right = getNode(b, "Sub");
  return a == b || (left && right && llvm::equal(left.getInputs(), right.getInputs()));
}

/// x and epsilon of x / sqrt(mean(x²) + epsilon).
std::optional<RootMeanSquare> matchNormalized(Value value) {
  std::optional<RootMeanSquare> result;
  if (nn::OnnxOp quotient = getNode(value, "Div"))
    result = matchRoot(quotient.getInputs()[1]);
  if (result)
    return areSame(result->x, getNode(value, "Div").getInputs()[0]) ? result : std::nullopt;
  matchEitherWay(getNode(value, "Mul"), [&](Value x, Value inverse) {
    result = matchInverseRoot(inverse);
    return result && areSame(result->x, x);
  });
  return result && getShape(result->x) == getShape(value) ? result : std::nullopt;
}

struct NormWeight {
  Value weight;
  double offset = 0;
};

/// A norm's weight, or offset + weight (Gemma).
std::optional<NormWeight> matchWeight(Value value, int64_t size) {
  if (isParameterVector(value, size))
    return NormWeight{value, 0};
  std::optional<NormWeight> result;
  matchEitherWay(getNode(value, "Add"), [&](Value weight, Value offset) {
    auto number = getSplat(offset);
    if (!isParameterVector(weight, size) || !number)
      return false;
    result = {weight, *number};
    return true;
  });
  return result;
}

/// The u of u − mean(u) over the last axis.
Value matchCentered(Value value) {
  nn::OnnxOp difference = getNode(value, "Sub");
  nn::OnnxOp mean = difference ? getNode(difference.getInputs()[1], "ReduceMean") : nn::OnnxOp();
  return mean && mean.getInputs()[0] == difference.getInputs()[0] ? difference.getInputs()[0] : Value();
}

/// normalized · weight.
struct RaiseWeightedNorm : NodePattern {
  explicit RaiseWeightedNorm(MLIRContext *context) : NodePattern(context, "Mul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value normalized, Value factor) {
      auto norm = matchNormalized(normalized);
      auto weight = norm ? matchWeight(factor, getShape(normalized).back()) : std::nullopt;
      if (!weight)
        return false;
      NamedAttribute epsilon = rewriter.getNamedAttr("epsilon", rewriter.getF32FloatAttr(norm->epsilon));
      Value centered = matchCentered(norm->x);
      SmallVector<NamedAttribute> attributes = {epsilon};
      if (!centered || weight->offset != 0)
        attributes.push_back(rewriter.getNamedAttr("weight_offset", rewriter.getF32FloatAttr(weight->offset)));
      replaceByNode(rewriter, root, centered ? "LayerNormalization" : "RMSNormalization",
                    {centered ? centered : norm->x, weight->weight}, attributes);
      return true;
    });
  }
};

/// A layer norm without a bias, and a bias.
struct RaiseNormBias : NodePattern {
  explicit RaiseNormBias(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value normalized, Value bias) {
      nn::OnnxOp norm = getNode(normalized, "LayerNormalization");
      if (!norm || norm.getInputs().size() != 2 || !isParameterVector(bias, getShape(normalized).back()))
        return false;
      replaceByNode(rewriter, root, "LayerNormalization", {norm.getInputs()[0], norm.getInputs()[1], bias},
                    norm.getNodeAttributesAttr().getValue());
      return true;
    });
  }
};

/// normalized, which nothing weighs.
struct RaiseUnweightedNorm : NodePattern {
  explicit RaiseUnweightedNorm(MLIRContext *context) : NodePattern(context, "Mul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    Value normalized = root.getOutputs()[0];
    auto norm = matchNormalized(normalized);
    if (!norm)
      return false;
    int64_t size = getShape(normalized).back();
    for (Operation *user : normalized.getUsers())
      if (matchEitherWay(dyn_cast<nn::OnnxOp>(user),
                         [&](Value, Value factor) { return matchWeight(factor, size).has_value(); }))
        return false;
    auto type = RankedTensorType::get({size}, rewriter.getF32Type());
    Value ones = nn::ConstantOp::create(rewriter, root.getLoc(), type, DenseElementsAttr::get(type, 1.0f));
    Value centered = matchCentered(norm->x);
    replaceByNode(rewriter, root, centered ? "LayerNormalization" : "RMSNormalization",
                  {centered ? centered : norm->x, ones},
                  rewriter.getNamedAttr("epsilon", rewriter.getF32FloatAttr(norm->epsilon)));
    return true;
  }
};

/// A fused norm of offset + weight.
struct RaiseOffsetWeight : NodePattern {
  RaiseOffsetWeight(MLIRContext *context, StringRef norm) : NodePattern(context, norm) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    std::optional<NormWeight> weight;
    if (root.getInputs().size() >= 2)
      weight = matchWeight(root.getInputs()[1], getShape(root.getInputs()[0]).back());
    if (!weight || weight->offset == 0)
      return false;
    SmallVector<Value> inputs(root.getInputs());
    inputs[1] = weight->weight;
    replaceByNode(rewriter, root, root.getOpType(), inputs,
                  {rewriter.getNamedAttr("epsilon", rewriter.getF32FloatAttr(getFloat(root, "epsilon", 1e-5))),
                   rewriter.getNamedAttr("weight_offset", rewriter.getF32FloatAttr(weight->offset))});
    return true;
  }
};

} // namespace

void mebp::populateRaiseNorm(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<RaiseWeightedNorm, RaiseUnweightedNorm, RaiseNormBias>(context);
  patterns.add<RaiseOffsetWeight>(context, "RMSNormalization");
  patterns.add<RaiseOffsetWeight>(context, "LayerNormalization");
}
