// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts: Route(logits, bias) gives weights and ids, ExpertLinear(x, weight, ids, bias) {transposed}
// multiplies each slot of a token with the weights of its expert, ExpertSum(y, weights) adds up what the slots give.
// ExpertScale(weights, scales, ids) multiplies the weights by a number of each slot's expert. A gate of one number,
// σ(g) x, is the sum of one slot, which a router of one expert weighs.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/BuiltinOps.h"

#include <cmath>

using namespace mlir;
using namespace mebp;

namespace {

/// What a value is a view of, through the nodes of these names.
Value strip(Value value, ArrayRef<StringRef> views = {"Reshape"}) {
  while (auto node = value.getDefiningOp<nn::OnnxOp>()) {
    if (!llvm::is_contained(views, node.getOpType()))
      break;
    value = node.getInputs()[0];
  }
  return value;
}

/// The node whose result of that number `value` is.
nn::OnnxOp getNodeOfResult(Value value, StringRef op, unsigned number) {
  nn::OnnxOp node = getNode(value, op);
  return node && node.getOutputs().size() > number && node.getOutputs()[number] == value ? node : nn::OnnxOp();
}

/// Σ over the last axis, or over the one before it, of what is returned.
Value getSummand(Value value, int64_t fromBack, bool keepsAxis) {
  nn::OnnxOp sum = getNode(value, "ReduceSum");
  if (!sum)
    return {};
  Value summand = sum.getInputs()[0];
  int64_t axis = static_cast<int64_t>(getShape(summand).size()) - fromBack;
  bool matches = getInteger(sum, "axis") == axis && (getInteger(sum, "keepdims") != 0) == keepsAxis;
  return matches ? summand : Value();
}

/// Whether all elements are this number. A table that the file holds comes as a parameter.
bool areAll(Value value, double number) {
  auto read = value.getDefiningOp<nn::ReadParameterOp>();
  if (!read)
    return isSplat(value, number);
  auto parameter = read->getParentOfType<ModuleOp>().lookupSymbol<nn::ParameterOp>(read.getParameter());
  auto held = parameter ? dyn_cast_or_null<DenseElementsAttr>(parameter.getInlineDataAttr()) : DenseElementsAttr();
  return held && held.isSplat() && isa<FloatType>(held.getElementType()) &&
         held.getSplatValue<APFloat>().isExactlyValue(number);
}

struct Router {
  Value logits, bias, ids;
  StringRef score;
  bool isNormalized = false;
  double epsilon = 0, scale = 1;
  std::optional<double> threshold;
  int64_t groups = 1, topGroups = 1, bestOfGroup = 1;

  int64_t experts() const { return getShape(logits).back(); }
};

/// Finds out what a value [tokens, slots] that weighs experts is made of.
class RouterMatcher {
public:
  std::optional<Router> match(Value weights) {
    Scaled scaled = stripScale(strip(weights));
    router.scale = scaled.factor;
    Value p = strip(scaled.source);
    if (nn::OnnxOp division = getNode(p, "Div")) {
      p = division.getInputs()[0];
      if (!matchSum(division.getInputs()[1], p))
        return std::nullopt;
      router.isNormalized = true;
    }
    if (!matchChosen(p) || router.experts() < getShape(router.ids).back())
      return std::nullopt;
    return router;
  }

private:
  /// Σ p, Σ p + epsilon, or max(Σ p, bound) with a bound that no sum of a softmax's largest falls below.
  bool matchSum(Value sum, Value p) {
    if (getSummand(sum, 1, true) == p)
      return true;
    if (nn::OnnxOp clip = getNode(sum, "Clip"))
      return getFloat(clip, "lower", 1) <= 1e-6 && !getAttribute(clip, "upper") &&
             getSummand(clip.getInputs()[0], 1, true) == p;
    nn::OnnxOp add = getNode(sum, "Add");
    return add && matchEitherWay(add, [&](Value inner, Value number) {
             auto epsilon = getSplat(number);
             if (!epsilon || getSummand(inner, 1, true) != p)
               return false;
             router.epsilon = *epsilon;
             return true;
           });
  }

  bool matchChosen(Value p) {
    if (nn::OnnxOp top = getNodeOfResult(p, "TopK", 0)) {
      Value scores = matchGroups(top.getInputs()[0], 0);
      router.ids = top.getOutputs()[1];
      return scores && matchScores(scores);
    }
    if (nn::OnnxOp softmax = getNode(p, "Softmax")) {
      nn::OnnxOp top = getNodeOfResult(softmax.getInputs()[0], "TopK", 0);
      if (!top || !top.getInputs()[0].getDefiningOp<nn::OnnxOp>())
        return false;
      router.score = "softmax_of_chosen";
      router.logits = top.getInputs()[0];
      router.ids = top.getOutputs()[1];
      return true;
    }
    if (nn::OnnxOp slots = getNode(p, "Concat"))
      return matchNear(slots);
    nn::OnnxOp gather = getNode(p, "GatherElements");
    nn::OnnxOp top = gather ? getNodeOfResult(gather.getInputs()[1], "TopK", 1) : nn::OnnxOp();
    if (!top)
      return false;
    router.ids = gather.getInputs()[1];
    Value scores = gather.getInputs()[0], choice = matchGroups(top.getInputs()[0], -INFINITY);
    return choice && matchScores(scores) && (choice == scores || matchBias(choice, scores));
  }

  bool matchScores(Value scores) {
    for (auto [op, name] : {std::pair<StringRef, StringRef>{"Softmax", "softmax"}, {"Sigmoid", "sigmoid"}})
      if (nn::OnnxOp node = getNode(scores, op)) {
        router.score = name;
        router.logits = node.getInputs()[0];
        return true;
      }
    return false;
  }

  /// Slot by slot: the largest of what no slot before it has taken, weighed by a softmax of what is near it there.
  bool matchNear(nn::OnnxOp slots) {
    if (getInteger(slots, "axis") + 1 != static_cast<int64_t>(getShape(slots.getOutputs()[0]).size()))
      return false;
    SmallVector<Value> chosen;
    Value left; // of the logits; what is taken is hidden
    for (Value p : slots.getInputs()) {
      nn::OnnxOp gather = getNode(p, "GatherElements");
      nn::OnnxOp softmax = gather ? getNode(gather.getInputs()[0], "Softmax") : nn::OnnxOp();
      nn::OnnxOp best = gather ? getNode(gather.getInputs()[1], "ArgMax") : nn::OnnxOp();
      if (!softmax || !best)
        return false;
      Value rest = best.getInputs()[0];
      if (!left)
        router.logits = rest;
      else if (!isRest(rest, left, chosen.back()))
        return false;
      left = rest;
      chosen.push_back(gather.getInputs()[1]);
      if (!matchReach(softmax.getInputs()[0], left))
        return false;
    }
    router.score = "softmax_of_near";
    for (Operation *user : chosen.front().getUsers()) {
      auto ids = dyn_cast<nn::OnnxOp>(user);
      if (ids && ids.getOpType() == "Concat" && llvm::equal(ids.getInputs(), chosen) &&
          getShape(ids.getOutputs()[0]) == getShape(slots.getOutputs()[0]))
        router.ids = ids.getOutputs()[0];
    }
    return bool(router.ids);
  }

  static bool isRest(Value rest, Value left, Value taken) {
    nn::OnnxOp scatter = getNode(rest, "ScatterElements");
    return scatter && scatter.getInputs()[0] == left && scatter.getInputs()[1] == taken &&
           areAll(scatter.getInputs()[2], -INFINITY);
  }

  /// `left` where (m − logits) / max(|logits|, m) is no larger than a threshold, with m its largest; else −∞.
  bool matchReach(Value near, Value left) {
    nn::OnnxOp where = getNode(near, "Where");
    nn::OnnxOp test = where ? getNode(where.getInputs()[0], "Greater") : nn::OnnxOp();
    nn::OnnxOp relative = test ? getNode(test.getInputs()[0], "Div") : nn::OnnxOp();
    nn::OnnxOp distance = relative ? getNode(relative.getInputs()[0], "Sub") : nn::OnnxOp();
    auto threshold = test ? getSplat(test.getInputs()[1]) : std::nullopt;
    if (!distance || !threshold || *threshold < 0 || !std::isfinite(*threshold) ||
        router.threshold.value_or(*threshold) != *threshold || !isSplat(where.getInputs()[1], -INFINITY) ||
        where.getInputs()[2] != left || !isLargest(distance.getInputs()[0], left) ||
        distance.getInputs()[1] != router.logits)
      return false;
    router.threshold = threshold;
    return matchEitherWay(getNode(relative.getInputs()[1], "Max"), [&](Value size, Value largest) {
      nn::OnnxOp absolute = getNode(size, "Abs");
      return absolute && absolute.getInputs()[0] == router.logits && isLargest(largest, left);
    });
  }

  static bool isLargest(Value value, Value of) {
    nn::OnnxOp largest = getNode(value, "ReduceMax");
    return largest && largest.getInputs()[0] == of &&
           getInteger(largest, "axis") + 1 == static_cast<int64_t>(getShape(of).size()) &&
           getInteger(largest, "keepdims") != 0;
  }

  bool matchBias(Value choice, Value scores) {
    nn::OnnxOp add = getNode(choice, "Add");
    return add && matchEitherWay(add, [&](Value left, Value bias) {
             Value parameter = strip(bias);
             auto count = cast<RankedTensorType>(parameter.getType()).getNumElements();
             if (left != scores || !parameter.getDefiningOp<nn::ReadParameterOp>() || count != router.experts())
               return false;
             router.bias = parameter;
             return true;
           });
  }

  /// What is chosen from the best groups of it alone: the rest is `hidden`. The value itself where nothing is hidden.
  Value matchGroups(Value choice, double hidden) {
    nn::OnnxOp where = getNode(choice, "Where");
    if (!where)
      return choice;
    Value condition = where.getInputs()[0], shown = where.getInputs()[1], other = where.getInputs()[2];
    if (nn::OnnxOp inverted = getNode(condition, "Not")) {
      condition = inverted.getInputs()[0];
      std::swap(shown, other);
    }
    nn::OnnxOp scatter = getNode(strip(condition, {"Reshape", "Expand", "Cast"}), "ScatterElements");
    if (!isSplat(other, hidden) || !scatter || !isSplat(scatter.getInputs()[0], 0) ||
        !areAll(scatter.getInputs()[2], 1))
      return {};
    nn::OnnxOp top = getNodeOfResult(scatter.getInputs()[1], "TopK", 1);
    return top && matchGroupScores(top.getInputs()[0], shown, getShape(top.getOutputs()[1]).back()) ? shown : Value();
  }

  bool matchGroupScores(Value scores, Value choice, int64_t kept) {
    Value grouped;
    if (nn::OnnxOp largest = getNode(scores, "ReduceMax")) {
      grouped = largest.getInputs()[0];
    } else {
      Value summand = getSummand(scores, 1, false);
      nn::OnnxOp best = summand ? getNodeOfResult(summand, "TopK", 0) : nn::OnnxOp();
      if (!best)
        return false;
      grouped = best.getInputs()[0];
      router.bestOfGroup = getShape(best.getOutputs()[0]).back();
    }
    ArrayRef<int64_t> shape = getShape(grouped);
    if (strip(grouped) != strip(choice) || shape.size() != getShape(choice).size() + 1 ||
        shape.back() * shape[shape.size() - 2] != getShape(choice).back())
      return false;
    router.groups = shape[shape.size() - 2];
    router.topGroups = kept;
    return true;
  }

  Router router;
};

/// Makes the node where its ids were chosen, and returns it.
nn::OnnxOp makeRoute(PatternRewriter &rewriter, const Router &router, Type weights, Type ids, Operation *place) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(place);
  SmallVector<NamedAttribute> attributes;
  auto set = [&](StringRef name, Attribute value) { attributes.push_back(rewriter.getNamedAttr(name, value)); };
  set("score", rewriter.getStringAttr(router.score));
  set("scale", rewriter.getF32FloatAttr(static_cast<float>(router.scale)));
  if (router.isNormalized)
    set("normalized", rewriter.getUnitAttr());
  if (router.epsilon != 0)
    set("epsilon", rewriter.getF32FloatAttr(static_cast<float>(router.epsilon)));
  if (router.threshold)
    set("threshold", rewriter.getF32FloatAttr(static_cast<float>(*router.threshold)));
  // Of one group, or of all, nothing is hidden.
  if (router.topGroups < router.groups) {
    set("groups", rewriter.getI64IntegerAttr(router.groups));
    set("top_groups", rewriter.getI64IntegerAttr(router.topGroups));
    set("best_of_group", rewriter.getI64IntegerAttr(router.bestOfGroup));
  }
  SmallVector<Value> inputs = {router.logits};
  if (router.bias)
    inputs.push_back(router.bias);
  return nn::OnnxOp::create(rewriter, place->getLoc(), {weights, ids}, rewriter.getStringAttr("Route"), inputs,
                            rewriter.getDictionaryAttr(attributes));
}

/// What the rows of each slot's expert are taken of, and ids: w[ids].
struct Chosen {
  Value parameter, ids; // null: it is no such thing
  bool isTransposed = false;

  explicit Chosen(Value value, size_t rank) {
    nn::OnnxOp gather = getNode(strip(value), "Gather");
    if (!gather || getInteger(gather, "axis") != 0 || getShape(value).size() != rank + 1)
      return;
    Value all = strip(gather.getInputs()[0]), numbers = strip(gather.getInputs()[1]);
    ArrayRef<int64_t> shape = getShape(gather.getInputs()[0]);
    if (nn::OnnxOp transpose = getNode(all, "Transpose")) {
      auto axes = dyn_cast_or_null<DenseI64ArrayAttr>(getAttribute(transpose, "perm"));
      if (!axes || axes.asArrayRef() != ArrayRef<int64_t>{0, 2, 1})
        return;
      isTransposed = true;
      all = transpose.getInputs()[0];
    }
    if (all.getDefiningOp<nn::ReadParameterOp>() && shape.size() == rank &&
        getShape(all).back() == shape[isTransposed ? rank - 2 : rank - 1] &&
        getShape(value).drop_front(2) == shape.drop_front() && getShape(numbers) == getShape(value).take_front(2)) {
      parameter = all;
      ids = numbers;
    }
  }
};

/// w[ids] x, with a weight [experts, out, in], or one [experts, in, out] that is transposed.
struct RaiseExpertLinear : NodePattern {
  explicit RaiseExpertLinear(MLIRContext *context) : NodePattern(context, "MatMul", 2) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    Chosen weight(root.getInputs()[0], 3);
    Value x = root.getInputs()[1];
    if (!weight.parameter || getShape(x).size() != 4 || getShape(x).back() != 1)
      return false;
    replaceByNode(rewriter, root, "ExpertLinear", {x, weight.parameter, weight.ids},
                  rewriter.getNamedAttr("transposed", rewriter.getBoolAttr(weight.isTransposed)));
    return true;
  }
};

/// ExpertLinear + b[ids], with a bias [experts, out].
struct RaiseExpertBias : NodePattern {
  explicit RaiseExpertBias(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value product, Value other) {
      nn::OnnxOp linear = getNode(strip(product), "ExpertLinear");
      if (!linear || linear.getInputs().size() != 3 || getShape(product) != getShape(other))
        return false;
      Chosen bias(other, 2);
      if (!bias.parameter || bias.ids != linear.getInputs()[2])
        return false;
      SmallVector<Value> inputs(linear.getInputs());
      inputs.push_back(bias.parameter);
      auto whole = nn::OnnxOp::create(rewriter, root.getLoc(), linear.getResultTypes(),
                                      rewriter.getStringAttr("ExpertLinear"), inputs, linear.getNodeAttributesAttr());
      replaceByNode(rewriter, root, "Reshape", whole.getOutputs()[0]);
      return true;
    });
  }
};

/// Σ y_j weights_j over the slots.
struct RaiseExpertSum : NodePattern {
  explicit RaiseExpertSum(MLIRContext *context) : NodePattern(context, "ReduceSum", 2) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    Value summand = getSummand(root.getOutputs()[0], 2, false);
    nn::OnnxOp product = summand ? getNode(summand, "Mul") : nn::OnnxOp();
    if (!product || getShape(summand).size() != 3)
      return false;
    return matchEitherWay(product, [&](Value y, Value weights) {
      ArrayRef<int64_t> shape = getShape(weights);
      if (getShape(y) != getShape(summand) || shape.size() != 3 || shape.back() != 1)
        return false;
      Value scales;
      Value unscaled = stripExpertScale(strip(weights), scales);
      auto router = RouterMatcher().match(unscaled);
      if (!router)
        return false;
      auto type = cast<RankedTensorType>(weights.getType()).clone(shape.drop_back());
      nn::OnnxOp route = makeRoute(rewriter, *router, type, router->ids.getType(), router->ids.getDefiningOp());
      rewriter.replaceAllUsesWith(router->ids, route.getOutputs()[1]);
      Value counted = route.getOutputs()[0];
      if (scales)
        counted = nn::OnnxOp::create(rewriter, root.getLoc(), TypeRange(type), rewriter.getStringAttr("ExpertScale"),
                                     {counted, scales, route.getOutputs()[1]}, DictionaryAttr())
                      .getOutputs()[0];
      replaceByNode(rewriter, root, "ExpertSum", {y, counted});
      return true;
    });
  }

  /// What scales[ids] multiplies, and the scales; the weights themselves, and none, where they are no such product.
  static Value stripExpertScale(Value weights, Value &scales) {
    Value rest = weights;
    matchEitherWay(getNode(weights, "Mul"), [&](Value left, Value right) {
      Chosen chosen(right, 1);
      if (chosen.parameter) {
        scales = chosen.parameter;
        rest = left;
      }
      return bool(scales);
    });
    return rest;
  }
};

/// σ(g) x with one g for each token.
struct RaiseTokenGate : NodePattern {
  explicit RaiseTokenGate(MLIRContext *context) : NodePattern(context, "Mul", 2) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value gate, Value x) {
      nn::OnnxOp sigmoid = getNode(gate, "Sigmoid");
      ArrayRef<int64_t> one = getShape(gate), all = getShape(x);
      if (!sigmoid || one.back() != 1 || all.back() == 1 || one.drop_back() != all.drop_back())
        return false;
      Router router;
      router.logits = sigmoid.getInputs()[0];
      router.score = "sigmoid";
      auto type = cast<RankedTensorType>(gate.getType());
      nn::OnnxOp route = makeRoute(rewriter, router, type, type.clone(rewriter.getI64Type()), sigmoid);
      replaceByNode(rewriter, root, "ExpertSum", {x, route.getOutputs()[0]});
      return true;
    });
  }
};

} // namespace

void mebp::populateRaiseExperts(RewritePatternSet &patterns) {
  patterns.add<RaiseExpertLinear, RaiseExpertBias, RaiseExpertSum, RaiseTokenGate>(patterns.getContext());
}
