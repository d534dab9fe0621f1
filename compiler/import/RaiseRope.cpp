// SPDX-License-Identifier: Apache-2.0
//
// Rotary embeddings: RotaryEmbedding(x) {frequencies, scale, position_axis, interleaved, apart, inverse}, the axis
// counted from the back. Pairs lie in halves, or one after the other; of those, `apart` are in halves afterwards.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"

using namespace mlir;
using namespace mebp;

namespace {

/// A cosine or sine table that is multiplied with activations.
nn::RotaryTableOp getTable(Value value, StringRef function) {
  auto table = value.getDefiningOp<nn::RotaryTableOp>();
  return table && table.getFunction() == function ? table : nn::RotaryTableOp();
}

int64_t axisFromBack(nn::RotaryTableOp table) {
  return static_cast<int64_t>(table.getPositionAxis()) - static_cast<int64_t>(getShape(table.getResult()).size());
}

/// Whether a cosine and a sine table are of the same angles.
bool belongTogether(nn::RotaryTableOp cosines, nn::RotaryTableOp sines) {
  return cosines && sines && cosines.getFrequencies() == sines.getFrequencies() &&
         cosines.getScale() == sines.getScale() && axisFromBack(cosines) == axisFromBack(sines);
}

bool haveEqualHalves(ArrayRef<float> frequencies) {
  size_t half = frequencies.size() / 2;
  return frequencies.size() % 2 == 0 && frequencies.take_front(half) == frequencies.drop_front(half);
}

void replaceByRope(PatternRewriter &rewriter, nn::OnnxOp root, Value x, ArrayRef<float> frequencies,
                   nn::RotaryTableOp table, bool interleaved = false, bool apart = false, bool inverse = false) {
  SmallVector<NamedAttribute> attributes = {
      rewriter.getNamedAttr("frequencies", rewriter.getDenseF32ArrayAttr(frequencies)),
      rewriter.getNamedAttr("scale", rewriter.getFloatAttr(rewriter.getF32Type(), table.getScale())),
      rewriter.getNamedAttr("position_axis", rewriter.getI64IntegerAttr(axisFromBack(table)))};
  if (interleaved)
    attributes.push_back(rewriter.getNamedAttr("interleaved", rewriter.getI64IntegerAttr(1)));
  if (apart)
    attributes.push_back(rewriter.getNamedAttr("apart", rewriter.getUnitAttr()));
  if (inverse)
    attributes.push_back(rewriter.getNamedAttr("inverse", rewriter.getI64IntegerAttr(1)));
  replaceByNode(rewriter, root, "RotaryEmbedding", x, attributes);
}

/// One frequency of each pair of neighbours, if they are equal.
std::optional<SmallVector<float>> halveNeighbours(ArrayRef<float> frequencies) {
  SmallVector<float> found;
  for (size_t i = 0; i + 1 < frequencies.size(); i += 2) {
    if (frequencies[i] != frequencies[i + 1])
      return std::nullopt;
    found.push_back(frequencies[i]);
  }
  return frequencies.size() % 2 == 0 ? std::optional(found) : std::nullopt;
}

/// The x of which a value, [..., pairs], is every second element from `start` on.
Value matchEverySecond(Value value, int64_t start) {
  nn::OnnxOp slice = getNode(value, "Slice");
  if (!slice)
    return {};
  Value x = slice.getInputs()[0];
  bool isLastAxis = getInteger(slice, "axis") == static_cast<int64_t>(getShape(x).size()) - 1;
  return isLastAxis && getInteger(slice, "step", 1) == 2 && getInteger(slice, "start") == start ? x : Value();
}

/// What [..., pairs, 1] was without its last axis; null where it never was.
Value matchAddedAxis(Value value) {
  nn::OnnxOp view = getNode(value, "Reshape");
  bool isAdded = view && getShape(value).back() == 1 && getShape(value).drop_back() == getShape(view.getInputs()[0]);
  return isAdded ? view.getInputs()[0] : Value();
}

/// The x of (−x₁, x₀, −x₃, x₂, ...).
Value matchRotatedPairs(Value value) {
  nn::OnnxOp view = getNode(value, "Reshape");
  nn::OnnxOp concat = view ? getNode(view.getInputs()[0], "Concat") : nn::OnnxOp();
  if (!concat || concat.getInputs().size() != 2)
    return {};
  ArrayRef<int64_t> pairs = getShape(concat.getOutputs()[0]), shape = getShape(value);
  if (getInteger(concat, "axis") != static_cast<int64_t>(pairs.size()) - 1 || pairs.size() != shape.size() + 1 ||
      pairs.drop_back(2) != shape.drop_back())
    return {};
  // The sign may be taken before the axis is added, or after.
  Value first = matchAddedAxis(concat.getInputs()[1]), even = first ? matchEverySecond(first, 0) : Value();
  Value second = concat.getInputs()[0], odd;
  if (nn::OnnxOp negated = getNode(second, "Neg"))
    second = matchAddedAxis(negated.getInputs()[0]);
  else if (Value added = matchAddedAxis(second))
    second = getNode(added, "Neg") ? getNode(added, "Neg").getInputs()[0] : Value();
  if (second)
    odd = matchEverySecond(second, 1);
  return even && odd == even && getShape(even) == shape ? even : Value();
}

struct RotatedHalves {
  Value x;
  bool isInverse = false;
};

/// The x of Concat(−x₂, x₁), x = [x₁, x₂] in halves; of Concat(x₂, −x₁), by which it is turned the other way.
RotatedHalves matchRotatedHalves(Value value) {
  nn::OnnxOp concat = getNode(value, "Concat");
  int64_t rank = getShape(value).size();
  if (!concat || concat.getInputs().size() != 2 || getInteger(concat, "axis") != rank - 1)
    return {};
  Value front = concat.getInputs()[0], back = concat.getInputs()[1];
  nn::OnnxOp negated = getNode(front, "Neg");
  const bool isInverse = !negated;
  if (isInverse)
    negated = getNode(back, "Neg");
  if (!negated)
    return {};
  (isInverse ? back : front) = negated.getInputs()[0];
  auto second = getPartOfLastAxis(front), first = getPartOfLastAxis(back);
  int64_t half = getShape(value).back() / 2;
  if (!first || !second || first->source != second->source || first->start != 0 || first->size != half ||
      second->start != half || second->size != half || getShape(first->source) != getShape(value))
    return {};
  return {first->source, isInverse};
}

/// x cos + rotate(x) sin.
struct RaiseRotatedSum : NodePattern {
  explicit RaiseRotatedSum(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value straight, Value rotated) {
      nn::RotaryTableOp cosines, sines;
      Value x, y;
      matchEitherWay(getNode(straight, "Mul"), [&](Value a, Value b) { return x = a, cosines = getTable(b, "cos"); });
      matchEitherWay(getNode(rotated, "Mul"), [&](Value a, Value b) { return y = a, sines = getTable(b, "sin"); });
      if (!belongTogether(cosines, sines) || !x)
        return false;
      ArrayRef<float> frequencies = cosines.getFrequencies();
      if (auto ofPairs = halveNeighbours(frequencies); ofPairs && matchRotatedPairs(y) == x &&
                                                       getShape(x) == getShape(root.getOutputs()[0]) &&
                                                       static_cast<int64_t>(frequencies.size()) == getShape(x).back()) {
        replaceByRope(rewriter, root, x, *ofPairs, cosines, /*interleaved=*/true);
        return true;
      }
      RotatedHalves halves = matchRotatedHalves(y);
      if (halves.x != x)
        return false;
      if (!haveEqualHalves(frequencies) || static_cast<int64_t>(frequencies.size()) != getShape(x).back() ||
          getShape(x) != getShape(root.getOutputs()[0]))
        return false;
      replaceByRope(rewriter, root, x, frequencies.take_front(frequencies.size() / 2), cosines, /*interleaved=*/false,
                    /*apart=*/false, halves.isInverse);
      return true;
    });
  }
};

/// Concat(x₁ cos − x₂ sin, x₂ cos + x₁ sin), with tables as wide as a half: x₁ and x₂ are halves, or every second one.
struct RaiseHalves : NodePattern {
  explicit RaiseHalves(MLIRContext *context) : NodePattern(context, "Concat") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (root.getInputs().size() != 2)
      return false;
    nn::OnnxOp difference = getNode(root.getInputs()[0], "Sub"), sum = getNode(root.getInputs()[1], "Add");
    if (!difference || !sum)
      return false;
    auto firstCos = matchTerm(difference.getInputs()[0], "cos"),
         secondSin = matchTerm(difference.getInputs()[1], "sin");
    auto secondCos = matchTerm(sum.getInputs()[0], "cos"), firstSin = matchTerm(sum.getInputs()[1], "sin");
    if (!secondCos.table || !firstSin.table) {
      secondCos = matchTerm(sum.getInputs()[1], "cos");
      firstSin = matchTerm(sum.getInputs()[0], "sin");
    }
    if (!belongTogether(firstCos.table, secondSin.table) || !belongTogether(secondCos.table, firstSin.table) ||
        !belongTogether(firstCos.table, firstSin.table) || firstCos.x != firstSin.x || secondCos.x != secondSin.x)
      return false;
    const int64_t half = firstCos.table.getFrequencies().size();
    if (Value x = matchEverySecond(firstCos.x, 0); x && matchEverySecond(secondCos.x, 1) == x &&
                                                   getShape(x) == getShape(root.getOutputs()[0]) &&
                                                   half * 2 == getShape(x).back()) {
      replaceByRope(rewriter, root, x, firstCos.table.getFrequencies(), firstCos.table, /*interleaved=*/true,
                    /*apart=*/true);
      return true;
    }
    auto first = getPartOfLastAxis(firstCos.x), second = getPartOfLastAxis(secondCos.x);
    if (!first || !second || first->source != second->source || first->start != 0 || first->size != half ||
        second->start != half || second->size != half || getShape(first->source) != getShape(root.getOutputs()[0]))
      return false;
    replaceByRope(rewriter, root, first->source, firstCos.table.getFrequencies(), firstCos.table);
    return true;
  }

private:
  struct Term {
    Value x;
    nn::RotaryTableOp table;
  };
  static Term matchTerm(Value value, StringRef function) {
    Term term;
    matchEitherWay(getNode(value, "Mul"),
                   [&](Value a, Value b) { return term.x = a, term.table = getTable(b, function); });
    return term;
  }
};

/// ONNX's own op, with its tables.
struct RaiseFused : NodePattern {
  explicit RaiseFused(MLIRContext *context) : NodePattern(context, "RotaryEmbedding") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (root.getInputs().size() != 3 || getShape(root.getInputs()[0]).size() != 4)
      return false;
    auto cosines = getTable(root.getInputs()[1], "cos"), sines = getTable(root.getInputs()[2], "sin");
    int64_t rotated = getInteger(root, "rotary_embedding_dim");
    int64_t width = rotated ? rotated : getShape(root.getInputs()[0]).back();
    if (!belongTogether(cosines, sines) || static_cast<int64_t>(cosines.getFrequencies().size()) * 2 != width)
      return false;
    replaceByRope(rewriter, root, root.getInputs()[0], cosines.getFrequencies(), cosines,
                  getInteger(root, "interleaved") != 0);
    return true;
  }
};

/// Concat(rotated first part, rest of the head), or the other way round. What lies before pairs of neighbours is
/// rotated by nothing.
struct RaisePartial : NodePattern {
  explicit RaisePartial(MLIRContext *context) : NodePattern(context, "Concat") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (root.getInputs().size() != 2)
      return false;
    const bool isFirst = static_cast<bool>(getNode(root.getInputs()[0], "RotaryEmbedding"));
    nn::OnnxOp rope = getNode(root.getInputs()[isFirst ? 0 : 1], "RotaryEmbedding");
    auto rotated = rope && rope.getInputs().size() == 1 ? getPartOfLastAxis(rope.getInputs()[0]) : std::nullopt;
    auto rest = getPartOfLastAxis(root.getInputs()[isFirst ? 1 : 0]);
    if (!rotated || !rest || rotated->source != rest->source || rotated->start != (isFirst ? 0 : rest->size) ||
        rest->start != (isFirst ? rotated->size : 0) || getShape(rest->source) != getShape(root.getOutputs()[0]) ||
        getFloat(rope, "scale") != 1 || getAttribute(rope, "apart"))
      return false;
    NamedAttrList attributes(rope.getNodeAttributesAttr());
    if (!isFirst) {
      if (!getInteger(rope, "interleaved") || rest->size % 2)
        return false;
      SmallVector<float> frequencies(rest->size / 2, 0);
      llvm::append_range(frequencies, cast<DenseF32ArrayAttr>(getAttribute(rope, "frequencies")).asArrayRef());
      attributes.set("frequencies", rewriter.getDenseF32ArrayAttr(frequencies));
    }
    replaceByNode(rewriter, root, "RotaryEmbedding", rest->source, attributes.getAttrs());
    return true;
  }
};

/// Products of queries and keys do not see in which order features lie: pairs that both have apart can stay together.
struct RaiseRotatedApart : NodePattern {
  explicit RaiseRotatedApart(MLIRContext *context) : NodePattern(context, "Attention") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    auto q = find(root.getInputs()[0]), k = find(root.getInputs()[1]);
    if (!getAttribute(root, "window") || !q || !k || q->start != k->start || q->pairs() != k->pairs())
      return false;
    SmallVector<Value> inputs(root.getInputs());
    inputs[0] = keepTogether(rewriter, *q), inputs[1] = keepTogether(rewriter, *k);
    replaceByNode(rewriter, root, "Attention", inputs, root.getNodeAttributesAttr().getValue());
    return true;
  }

private:
  /// A rope within the features of what views and joins make of it, and the operands that lead to it.
  struct Apart {
    nn::OnnxOp rope;
    int64_t start = 0;
    SmallVector<OpOperand *> path;

    size_t pairs() const { return cast<DenseF32ArrayAttr>(getAttribute(rope, "frequencies")).size(); }
  };

  /// Through how many nodes: models have three or four.
  static constexpr int kMostSteps = 8;

  static std::optional<Apart> find(Value value, int steps = kMostSteps) {
    auto node = value.getDefiningOp<nn::OnnxOp>();
    if (!node || steps == 0)
      return std::nullopt;
    if (node.getOpType() == "RotaryEmbedding")
      return getAttribute(node, "apart") ? std::optional(Apart{node, 0, {}}) : std::nullopt;
    const bool isConcat = node.getOpType() == "Concat";
    const int64_t last = getShape(value).size() - 1;
    if (isConcat ? getInteger(node, "axis") != last : !keepsFeatures(node))
      return std::nullopt;
    int64_t start = 0;
    for (OpOperand &operand : node->getOpOperands().take_front(isConcat ? node->getNumOperands() : 1)) {
      if (auto found = find(operand.get(), steps - 1)) {
        found->start += start;
        found->path.push_back(&operand);
        return found;
      }
      start += getShape(operand.get()).back();
    }
    return std::nullopt;
  }

  static bool keepsFeatures(nn::OnnxOp view) {
    if (view.getOpType() == "Transpose") {
      ArrayRef<int64_t> axes = cast<DenseI64ArrayAttr>(getAttribute(view, "perm")).asArrayRef();
      return axes.back() == static_cast<int64_t>(axes.size()) - 1;
    }
    return llvm::is_contained({"Reshape", "Expand"}, view.getOpType()) &&
           getShape(view.getInputs()[0]).back() == getShape(view.getOutputs()[0]).back();
  }

  static Value keepTogether(PatternRewriter &rewriter, const Apart &apart) {
    nn::OnnxOp rope = apart.rope;
    rope = cast<nn::OnnxOp>(rewriter.clone(*rope));
    NamedAttrList attributes(rope.getNodeAttributesAttr());
    attributes.erase("apart");
    rope.setNodeAttributesAttr(attributes.getDictionary(rewriter.getContext()));
    Value value = rope.getOutputs()[0];
    for (OpOperand *operand : apart.path) {
      auto *node = rewriter.clone(*operand->getOwner());
      node->setOperand(operand->getOperandNumber(), value);
      value = node->getResult(0);
    }
    return value;
  }
};

} // namespace

void mebp::populateRaiseRope(RewritePatternSet &patterns) {
  patterns.add<RaiseRotatedSum, RaiseHalves, RaiseFused, RaisePartial, RaiseRotatedApart>(patterns.getContext());
}
