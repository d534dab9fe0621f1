// SPDX-License-Identifier: Apache-2.0
//
// Silu, gelu and xIELU as their formulas are spelled out, and the gated units made with activations and sigmoids.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"
#include "format/activations.h"

#include <cmath>

using namespace mlir;
using namespace mebp;

namespace {

/// How far a model in bf16 may be from the constants of gelu.
constexpr double kRounding = 2e-3;

/// x σ(x), or x σ(factor x), which is gelu's quick form.
struct RaiseSilu : NodePattern {
  explicit RaiseSilu(MLIRContext *context) : NodePattern(context, "Mul", 2) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value x, Value gate) {
      nn::OnnxOp sigmoid = getNode(gate, "Sigmoid");
      if (!sigmoid)
        return false;
      if (sigmoid.getInputs()[0] == x) {
        replaceByNode(rewriter, root, "Swish", x);
        return true;
      }
      Scaled scaled = stripScale(sigmoid.getInputs()[0]);
      if (scaled.source != x || scaled.factor == 0)
        return false;
      replaceByNode(rewriter, root, "Swish", x,
                    rewriter.getNamedAttr("factor", rewriter.getF32FloatAttr(static_cast<float>(scaled.factor))));
      return true;
    });
  }
};

/// x/2 (1 + f(y)), where `match` finds x in f(y).
struct RaiseGelu : NodePattern {
  RaiseGelu(MLIRContext *context, StringRef function, StringRef approximate)
      : NodePattern(context, "Mul", 2), function(function), approximate(approximate) {}

  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    // Without knowing x yet, the factor 1 + f(y) is found among all factors.
    for (Value factor : expandProduct(root.getOutputs()[0], {}).factors) {
      Value inner;
      matchEitherWay(getNode(factor, "Add"), [&](Value f, Value one) {
        nn::OnnxOp node = isSplat(one, 1) ? getNode(f, function) : nn::OnnxOp();
        inner = node ? node.getInputs()[0] : Value();
        return bool(inner);
      });
      Value x = !inner ? Value() : function == "Erf" ? matchErfArgument(inner) : matchTanhArgument(inner);
      if (!x)
        continue;
      Product product = expandProduct(root.getOutputs()[0], x);
      if (product.factors.size() == 2 && std::fabs(product.constant - 0.5) < 1e-6 &&
          llvm::is_contained(product.factors, x) && llvm::is_contained(product.factors, factor)) {
        replaceByNode(rewriter, root, "Gelu", x,
                      rewriter.getNamedAttr("approximate", rewriter.getStringAttr(approximate)));
        return true;
      }
    }
    return false;
  }

private:
  /// The x of x / √2.
  static Value matchErfArgument(Value value) {
    Scaled scaled = stripScale(value);
    return std::fabs(scaled.factor - std::sqrt(0.5)) < kRounding ? scaled.source : Value();
  }
  /// The x of √(2/π) (x + 0.044715 x³).
  static Value matchTanhArgument(Value value) {
    Scaled scaled = stripScale(value);
    Value result;
    matchEitherWay(getNode(scaled.source, "Add"), [&](Value x, Value cube) {
      Product product = expandProduct(cube, x);
      bool matches = std::fabs(scaled.factor - std::sqrt(2 / M_PI)) < kRounding &&
                     std::fabs(product.constant - 0.044715) < 1e-4 && product.factors.size() == 3 &&
                     llvm::all_equal(product.factors) && product.factors[0] == x;
      result = matches ? x : Value();
      return matches;
    });
    return result;
  }

  StringRef function, approximate;
};

/// c tanh(x / c).
struct RaiseSoftcap : NodePattern {
  explicit RaiseSoftcap(MLIRContext *context) : NodePattern(context, "Mul", 2) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value bounded, Value factor) {
      nn::OnnxOp tangent = getNode(bounded, "Tanh");
      auto cap = getSplat(factor);
      nn::OnnxOp inner = tangent && cap && *cap > 0 ? tangent.getInputs()[0].getDefiningOp<nn::OnnxOp>() : nn::OnnxOp();
      if (!inner || inner.getInputs().size() != 2)
        return false;
      Value x = inner.getInputs()[0];
      auto number = getSplat(inner.getInputs()[1]);
      double divisor = !number                      ? 0
                       : inner.getOpType() == "Div" ? *number
                       : inner.getOpType() == "Mul" ? 1 / *number
                                                    : 0;
      if (std::fabs(divisor - *cap) > 1e-5 * *cap || getShape(x) != getShape(root.getOutputs()[0]))
        return false;
      replaceByNode(rewriter, root, "Softcap", x,
                    rewriter.getNamedAttr("softcap", rewriter.getF32FloatAttr(static_cast<float>(*cap))));
      return true;
    });
  }
};

/// xIELU: Where(x > 0, P x x + beta x, N (exp(min(x, epsilon)) − 1 − x) + beta x) with P = softplus(alpha_p) and
/// N = beta + softplus(alpha_n) of parameters of one element.
struct RaiseXielu : NodePattern {
  explicit RaiseXielu(MLIRContext *context) : NodePattern(context, "Where") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    nn::OnnxOp test = getNode(root.getInputs()[0], "Greater");
    if (!test || !isSplat(test.getInputs()[1], 0))
      return false;
    Value x = test.getInputs()[0];
    auto above = matchBesideLine(root.getInputs()[1], x), below = matchBesideLine(root.getInputs()[2], x);
    if (!above || !below || above->beta != below->beta || getShape(x) != getShape(root.getOutputs()[0]))
      return false;
    Value alphaP = matchSquare(above->bent, x);
    std::optional<Exponential> exponential = matchExponential(below->bent, x, below->beta);
    if (!alphaP || !exponential || exponential->epsilon > 0)
      return false;
    auto number = [&](double value) { return rewriter.getF32FloatAttr(static_cast<float>(value)); };
    replaceByNode(rewriter, root, "Xielu", {x, alphaP, exponential->alpha},
                  {rewriter.getNamedAttr("beta", number(above->beta)),
                   rewriter.getNamedAttr("epsilon", number(exponential->epsilon))});
    return true;
  }

private:
  struct BesideLine {
    Value bent;
    double beta;
  };
  struct Exponential {
    Value alpha;
    double epsilon;
  };

  /// What is added to beta x.
  static std::optional<BesideLine> matchBesideLine(Value value, Value x) {
    std::optional<BesideLine> result;
    matchEitherWay(getNode(value, "Add"), [&](Value bent, Value line) {
      Product product = expandProduct(line, x);
      if (product.factors.size() != 1 || product.factors[0] != x)
        return false;
      result = {bent, product.constant};
      return true;
    });
    return result;
  }

  /// The parameter whose softplus is multiplied with x twice.
  static Value matchSquare(Value value, Value x) {
    Product product = expandProduct(value, x);
    if (product.constant != 1 || product.factors.size() != 3 || llvm::count(product.factors, x) != 2)
      return {};
    return matchSoftplus(*llvm::find_if(product.factors, [&](Value factor) { return factor != x; }));
  }

  /// Of N (exp(min(x, epsilon)) − 1 − x).
  static std::optional<Exponential> matchExponential(Value value, Value x, double beta) {
    std::optional<Exponential> result;
    matchEitherWay(getNode(value, "Mul"), [&](Value curve, Value factor) {
      Value alpha;
      matchEitherWay(getNode(factor, "Add"), [&](Value softplus, Value offset) {
        alpha = isSplat(offset, beta) ? matchSoftplus(softplus) : Value();
        return bool(alpha);
      });
      nn::OnnxOp beyondLine = alpha ? getNode(curve, "Sub") : nn::OnnxOp();
      nn::OnnxOp beyondOne =
          beyondLine && beyondLine.getInputs()[1] == x ? getNode(beyondLine.getInputs()[0], "Sub") : nn::OnnxOp();
      nn::OnnxOp exponential =
          beyondOne && isSplat(beyondOne.getInputs()[1], 1) ? getNode(beyondOne.getInputs()[0], "Exp") : nn::OnnxOp();
      return exponential && matchEitherWay(getNode(exponential.getInputs()[0], "Min"), [&](Value bounded, Value bound) {
               auto epsilon = getSplat(bound);
               if (bounded != x || !epsilon)
                 return false;
               result = {alpha, *epsilon};
               return true;
             });
    });
    return result;
  }

  /// The parameter p of softplus(p), which torch spells Where(p > 20, p, softplus(p)): they differ by no bit there.
  static Value matchSoftplus(Value value) {
    nn::OnnxOp where = getNode(value, "Where");
    nn::OnnxOp test = where ? getNode(where.getInputs()[0], "Greater") : nn::OnnxOp();
    Scaled inner = stripScale(where ? where.getInputs()[2] : value);
    nn::OnnxOp softplus = inner.factor == 1 ? getNode(inner.source, "Softplus") : nn::OnnxOp();
    Scaled parameter = softplus ? stripScale(softplus.getInputs()[0]) : Scaled();
    if (!softplus || parameter.factor != 1 || !isParameterVector(parameter.source, 1))
      return {};
    if (!where)
      return parameter.source;
    auto threshold = test ? getSplat(test.getInputs()[1]) : std::nullopt;
    Scaled tested = test ? stripScale(test.getInputs()[0]) : Scaled();
    bool isSame = threshold && *threshold >= 20 && tested.source == parameter.source && tested.factor == 1 &&
                  where.getInputs()[1] == parameter.source;
    return isSame ? parameter.source : Value();
  }
};

/// f(gate) · up, with the factor that a Swish has.
struct RaiseGated : NodePattern {
  explicit RaiseGated(MLIRContext *context) : NodePattern(context, "Mul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value activated, Value up) {
      auto gate = activated.getDefiningOp<nn::OnnxOp>();
      StringRef activation = gate ? nameOf(gate) : StringRef();
      if (activation.empty() || !activated.hasOneUse() || !up.getDefiningOp<nn::OnnxOp>() ||
          getShape(up) != getShape(activated))
        return false;
      SmallVector<NamedAttribute> attributes = {
          rewriter.getNamedAttr("activation", rewriter.getStringAttr(activation))};
      if (Attribute factor = getAttribute(gate, "factor"))
        attributes.push_back(rewriter.getNamedAttr("factor", factor));
      replaceByNode(rewriter, root, "Gated", {gate.getInputs()[0], up}, attributes);
      return true;
    });
  }

private:
  /// As format/activations.h calls it; empty where it is none of these.
  static StringRef nameOf(nn::OnnxOp node) {
    if (isTanhForm(node))
      return "gelu_tanh";
    for (const format::ActivationTraits &traits : format::activations)
      if (node.getOpType() == traits.node)
        return traits.name;
    return "";
  }
};

} // namespace

void mebp::populateRaiseActivation(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<RaiseSilu, RaiseSoftcap, RaiseXielu, RaiseGated>(context);
  patterns.add<RaiseGelu>(context, "Erf", "none");
  patterns.add<RaiseGelu>(context, "Tanh", "tanh");
}
