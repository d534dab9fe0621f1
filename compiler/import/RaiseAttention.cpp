// SPDX-License-Identifier: Apache-2.0
//
// Attention(q, k, v) {scale, window, softcap, slopes, bidirectional}: causal but where it is bidirectional, q
// [B,H,T,d], k [B,K,T,d] and v [B,K,T,e] with K dividing H. Found in ONNX's own op and in its formula; the mask becomes
// the window, factors on q and k the scale, and repeated heads vanish. A fourth operand [H] are sinks: scores without a
// key, which the softmax has as a last column. Slopes are those of a bias by position (ALiBi), one for each head.
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace mebp;

namespace {

/// The source of a value [B,H,T,d] (or [B,H,d,T]) that repeats each head of [B,K,T,d] H/K times.
std::optional<View> matchHeads(Value value, bool isTransposed) {
  std::optional<View> deepest;
  for (const View &view : listViews(value)) {
    if (getShape(view.source).size() != 4 || view.layout.getRank() != 4)
      continue;
    AxisLayout source = AxisLayout::identity(getShape(view.source));
    ArrayRef<AxisPiece> heads = view.layout[1], distinct = source[1];
    bool repeatsInside = heads.take_front(distinct.size()) == distinct &&
                         llvm::all_of(heads.drop_front(std::min(heads.size(), distinct.size())),
                                      [](const AxisPiece &piece) { return piece.axis == AxisLayout::kRepeated; });
    if (repeatsInside && view.layout[0] == source[0] && view.layout[isTransposed ? 3 : 2] == source[2] &&
        view.layout[isTransposed ? 2 : 3] == source[3])
      deepest = view;
  }
  return deepest;
}

/// The source of a value's heads where no factor hides on the way.
Value matchUnscaledHeads(Value value) {
  auto heads = matchHeads(value, false);
  return heads && heads->factor == 1 ? heads->source : value;
}

/// What an Attention has beside its operands.
struct Form {
  double scale = 1;
  int64_t window = 0;
  double softcap = 0;
  SmallVector<float> slopes; // none, or one for each head
  bool isBidirectional = false;
};

void replaceByAttention(PatternRewriter &rewriter, nn::OnnxOp root, ValueRange inputs, const Form &form) {
  SmallVector<NamedAttribute> attributes = {
      rewriter.getNamedAttr("scale", rewriter.getF32FloatAttr(static_cast<float>(form.scale))),
      rewriter.getNamedAttr("window", rewriter.getI64IntegerAttr(form.window))};
  if (form.softcap != 0)
    attributes.push_back(rewriter.getNamedAttr("softcap", rewriter.getF32FloatAttr(static_cast<float>(form.softcap))));
  if (!form.slopes.empty())
    attributes.push_back(rewriter.getNamedAttr("slopes", rewriter.getDenseF32ArrayAttr(form.slopes)));
  if (form.isBidirectional)
    attributes.push_back(rewriter.getNamedAttr("bidirectional", rewriter.getUnitAttr()));
  replaceByNode(rewriter, root, "Attention", inputs, attributes);
}

/// The slopes of a bias that is added to scores [.., heads, queries, keys], one for each head.
std::optional<SmallVector<float>> matchBias(Value value, int64_t heads) {
  Value base = value;
  while (nn::OnnxOp view = getNode(base, "Reshape"))
    base = view.getInputs()[0];
  auto bias = base.getDefiningOp<nn::PositionBiasOp>();
  ArrayRef<int64_t> shape = getShape(value);
  if (!bias || shape.size() < 3 || shape.take_back(2) != getShape(base).take_back(2))
    return std::nullopt;
  const size_t axis = static_cast<size_t>(shape.drop_back(2).back()), all = static_cast<size_t>(heads);
  ArrayRef<float> own = bias.getSlopes();
  const size_t tables =
      cast<RankedTensorType>(value.getType()).getNumElements() / shape.back() / shape.drop_back().back();
  if (axis != all && axis != 1)
    return std::nullopt;
  for (size_t table = 0; table < tables; ++table)
    if (own[table % own.size()] != own[table % axis % own.size()])
      return std::nullopt;
  SmallVector<float> slopes;
  for (size_t head = 0; head < all; ++head)
    slopes.push_back(own[head % axis % own.size()]);
  return slopes;
}

/// The window of a mask that is causal.
std::optional<int64_t> matchCausalMask(Value mask) {
  auto causal = mask.getDefiningOp<nn::CausalMaskOp>();
  return causal ? std::optional<int64_t>(causal.getWindow()) : std::nullopt;
}

/// What may be added to scores: a causal mask, a bias by position, or both; neither, of anything else.
struct Addend {
  std::optional<int64_t> window;
  SmallVector<float> slopes;
};

Addend matchAddend(Value value, int64_t heads) {
  Addend addend;
  if (!getElementTypeOrSelf(value).isInteger(1))
    addend.window = matchCausalMask(value);
  if (auto slopes = matchBias(value, heads))
    addend.slopes = *slopes;
  matchEitherWay(getNode(value, "Add"), [&](Value bias, Value mask) {
    auto slopes = matchBias(bias, heads);
    auto window = matchCausalMask(mask);
    if (slopes && window)
      addend = {*window, *slopes};
    return slopes && window;
  });
  return addend;
}

bool hidesNothing(Value mask) {
  auto splat = getSplat(mask);
  return splat && *splat == (getElementTypeOrSelf(mask).isInteger(1) ? 1 : 0);
}

/// ONNX's own op.
struct RaiseFusedAttention : NodePattern {
  explicit RaiseFusedAttention(MLIRContext *context) : NodePattern(context, "Attention") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    size_t count = root.getInputs().size();
    // ONNX adds the mask before it caps; what is hidden then counts a little, unless the mask is no addend.
    if (getAttribute(root, "window") || count < 3 || count > 4 || (getFloat(root, "softcap") != 0 && count == 4))
      return false;
    Value q = root.getInputs()[0], k = root.getInputs()[1], v = root.getInputs()[2];
    Form form;
    std::optional<int64_t> window;
    if (count == 4 && getShape(q).size() == 4) {
      Value mask = root.getInputs()[3];
      Addend addend = matchAddend(mask, getShape(q)[1]);
      window = addend.window ? addend.window : matchCausalMask(mask);
      form.slopes = addend.slopes;
      if (!window && !form.slopes.empty() && getInteger(root, "is_causal"))
        window = 0;
      if (auto band = mask.getDefiningOp<nn::BandMaskOp>()) {
        window = band.getWindow();
        form.isBidirectional = !getInteger(root, "is_causal");
      }
    }
    if (!window && (count == 3 || hidesNothing(root.getInputs()[3]))) {
      window = 0;
      form.isBidirectional = !getInteger(root, "is_causal");
    }
    if (!window || getShape(q).size() != 4 || getShape(k).size() != 4 || getShape(v).size() != 4)
      return false;
    form.scale = getFloat(root, "scale", 1 / std::sqrt(static_cast<double>(getShape(q).back())));
    form.window = *window;
    form.softcap = getFloat(root, "softcap");
    replaceByAttention(rewriter, root, {q, matchUnscaledHeads(k), matchUnscaledHeads(v)}, form);
    return true;
  }
};

/// A factor on q or k belongs to the scale.
struct RaiseScaledOperand : NodePattern {
  explicit RaiseScaledOperand(MLIRContext *context) : NodePattern(context, "Attention") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (!getAttribute(root, "window"))
      return false;
    Scaled q = stripScale(root.getInputs()[0]), k = stripScale(root.getInputs()[1]);
    if (q.source == root.getInputs()[0] && k.source == root.getInputs()[1])
      return false;
    SmallVector<Value> inputs = {q.source, k.source};
    llvm::append_range(inputs, root.getInputs().drop_front(2));
    Form form;
    form.scale = getFloat(root, "scale") * q.factor * k.factor;
    form.window = getInteger(root, "window");
    form.softcap = getFloat(root, "softcap");
    if (auto slopes = dyn_cast_or_null<DenseF32ArrayAttr>(getAttribute(root, "slopes")))
      llvm::append_range(form.slopes, slopes.asArrayRef());
    form.isBidirectional = static_cast<bool>(getAttribute(root, "bidirectional"));
    replaceByAttention(rewriter, root, inputs, form);
    return true;
  }
};

/// softmax(scale q kᵀ + mask) v, with or without a bias by position, a softcap before the mask, and a column of sinks
/// beside the scores; or without a mask, which an encoder has none of.
struct RaiseAttentionFormula : NodePattern {
  explicit RaiseAttentionFormula(MLIRContext *context) : NodePattern(context, "MatMul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    std::optional<Sunk> sunk = matchSinks(root.getInputs()[0]);
    nn::OnnxOp softmax = getNode(stripNanGuard(root.getInputs()[0]), "Softmax");
    if (!softmax && !sunk)
      return false;
    if (getShape(root.getOutputs()[0]).size() != 4)
      return false;
    Value scores = sunk ? sunk->scores : softmax.getInputs()[0];
    auto masked = matchMasked(scores, getShape(root.getOutputs()[0])[1]);
    const bool isBidirectional = !masked && !sunk;
    if (isBidirectional) {
      const Scaled scaled = stripScale(scores);
      masked = Masked{scaled.source, scaled.factor, 0, {}};
    }
    if (!masked)
      return false;
    nn::OnnxOp softcap = getNode(masked->logits, "Softcap");
    // What softmax does not see of a bias, sinks would.
    if ((softcap && (masked->factor != 1 || !masked->slopes.empty())) || (sunk && !masked->slopes.empty()))
      return false;
    Scaled logits = stripScale(softcap ? softcap.getInputs()[0] : masked->logits);
    nn::OnnxOp product = getNode(logits.source, "MatMul");
    if (!product || getShape(product.getInputs()[0]).size() != 4 || getShape(product.getInputs()[1]).size() != 4)
      return false;
    Scaled q = stripScale(product.getInputs()[0]);
    auto k = matchHeads(product.getInputs()[1], true), v = matchHeads(root.getInputs()[1], false);
    if (!v || v->factor != 1 || getShape(root.getOutputs()[0]).drop_back() != getShape(q.source).drop_back())
      return false;
    if (!k) // one Transpose from [B,T,K,d], say
      k = turnKeys(rewriter, product.getInputs()[1]);
    SmallVector<Value> inputs = {q.source, k->source, v->source};
    if (sunk)
      inputs.push_back(sunk->sinks);
    Form form;
    form.scale = masked->factor * logits.factor * q.factor * k->factor;
    form.window = *masked->window;
    form.softcap = softcap ? getFloat(softcap, "softcap") : 0;
    form.slopes = masked->slopes;
    form.isBidirectional = isBidirectional;
    replaceByAttention(rewriter, root, inputs, form);
    return true;
  }

private:
  /// [B,K,T,d] of [B,K,d,T].
  static View turnKeys(PatternRewriter &rewriter, Value turned) {
    ArrayRef<int64_t> shape = getShape(turned);
    auto permutation = rewriter.getNamedAttr("perm", rewriter.getDenseI64ArrayAttr({0, 1, 3, 2}));
    auto type = cast<RankedTensorType>(turned.getType()).clone({shape[0], shape[1], shape[3], shape[2]});
    Value keys = nn::OnnxOp::create(rewriter, turned.getLoc(), TypeRange(type), rewriter.getStringAttr("Transpose"),
                                    ValueRange(turned), rewriter.getDictionaryAttr({permutation}))
                     .getResult(0);
    return View{keys, AxisLayout::identity(getShape(keys))};
  }

  /// factor · logits + mask + slopes · positions.
  struct Masked {
    Value logits;
    double factor = 1;
    std::optional<int64_t> window;
    SmallVector<float> slopes;
  };
  struct Sunk {
    Value scores, sinks;
  };

  /// Of probabilities [B,H,T,T], the first columns of softmax(scores, sinks): what both were before.
  static std::optional<Sunk> matchSinks(Value probabilities) {
    nn::OnnxOp slice = getNode(probabilities, "Slice");
    nn::OnnxOp softmax = slice ? getNode(slice.getInputs()[0], "Softmax") : nn::OnnxOp();
    nn::OnnxOp concat = softmax ? getNode(softmax.getInputs()[0], "Concat") : nn::OnnxOp();
    nn::OnnxOp column =
        concat && concat.getInputs().size() == 2 ? getNode(concat.getInputs()[1], "Expand") : nn::OnnxOp();
    nn::OnnxOp view = column ? getNode(column.getInputs()[0], "Reshape") : nn::OnnxOp();
    if (!view || getInteger(slice, "axis") != 3 || getInteger(slice, "start") != 0 || getInteger(slice, "step", 1) != 1)
      return std::nullopt;
    Value scores = concat.getInputs()[0], sinks = view.getInputs()[0];
    int64_t heads = getShape(probabilities)[1];
    if (getShape(scores) != getShape(probabilities) || getShape(column.getOutputs()[0]).back() != 1 ||
        getShape(view.getOutputs()[0]) != ArrayRef<int64_t>({1, heads, 1, 1}) ||
        !sinks.getDefiningOp<nn::ReadParameterOp>())
      return std::nullopt;
    return Sunk{scores, sinks};
  }

  /// The S of Where(IsNaN(S), 0, S), which torch puts around rows without any key. A causal row has one.
  static Value stripNanGuard(Value value) {
    nn::OnnxOp where = getNode(value, "Where");
    nn::OnnxOp test = where ? getNode(where.getInputs()[0], "IsNaN") : nn::OnnxOp();
    return test && test.getInputs()[0] == where.getInputs()[2] ? where.getInputs()[2] : value;
  }

  /// What is around logits, whatever the order: a mask that is added or chooses, a bias, a factor. Where a mask is
  /// added before the scale, what it hides stays hidden. A key is seen where several masks show it (GPT-Neo).
  static std::optional<Masked> matchMasked(Value value, int64_t heads) {
    Masked found;
    found.logits = value;
    while (matchAdded(found, heads) || matchChosen(found) || matchBound(found) || matchMultiplied(found)) {
    }
    return found.window ? std::optional(found) : std::nullopt;
  }

  static bool matchAdded(Masked &found, int64_t heads) {
    Scaled scaled = stripScale(found.logits);
    return matchEitherWay(getNode(scaled.source, "Add"), [&](Value logits, Value other) {
      const Addend addend = matchAddend(other, heads);
      if ((!addend.window && addend.slopes.empty()) || (!addend.slopes.empty() && !found.slopes.empty()) ||
          scaled.factor <= 0)
        return false;
      take(found, logits, scaled.factor, addend.window);
      for (float slope : addend.slopes)
        found.slopes.push_back(static_cast<float>(found.factor * slope));
      return true;
    });
  }

  static bool matchChosen(Masked &found) {
    Scaled scaled = stripScale(found.logits);
    nn::OnnxOp where = getNode(scaled.source, "Where");
    nn::OnnxOp hiding = where ? getNode(where.getInputs()[0], "Not") : nn::OnnxOp();
    auto window = where ? matchCausalMask(hiding ? hiding.getInputs()[0] : where.getInputs()[0]) : std::nullopt;
    if (!window || scaled.factor <= 0 || !hides(where.getInputs()[hiding ? 1 : 2], found.factor * scaled.factor))
      return false;
    take(found, where.getInputs()[hiding ? 2 : 1], scaled.factor, window);
    return true;
  }

  /// These logits are left, within a factor and perhaps a mask.
  static void take(Masked &found, Value logits, double factor, std::optional<int64_t> window) {
    found.logits = logits;
    found.factor *= factor;
    if (!window)
      return;
    const bool both = found.window.value_or(0) && *window;
    found.window = both ? std::min(*found.window, *window) : found.window.value_or(0) + *window;
  }

  /// Max(x, a number that hides), as XGLM has it so that nothing becomes infinite.
  static bool matchBound(Masked &found) {
    return matchEitherWay(getNode(found.logits, "Max"), [&](Value logits, Value bound) {
      if (!hides(bound, found.factor))
        return false;
      found.logits = logits;
      return true;
    });
  }

  /// Scores times 0 where a mask around them hides them anyway, as GPT has it.
  static bool matchMultiplied(Masked &found) {
    return matchEitherWay(getNode(found.logits, "Mul"), [&](Value logits, Value factor) {
      nn::OnnxOp cast = getNode(factor, "Cast");
      auto window = cast ? matchCausalMask(cast.getInputs()[0]) : std::nullopt;
      if (!window || window != found.window)
        return false;
      found.logits = logits;
      return true;
    });
  }

  /// Within this factor.
  static bool hides(Value number, double factor) {
    auto splat = getSplat(number);
    return splat && *splat * factor <= -1e4;
  }
};

} // namespace

void mebp::populateRaiseAttention(RewritePatternSet &patterns) {
  patterns.add<RaiseFusedAttention, RaiseScaledOperand, RaiseAttentionFormula>(patterns.getContext());
}
