// SPDX-License-Identifier: Apache-2.0
//
// Attention(q, k, v) {scale, window, softcap, bidirectional}: causal but where it is bidirectional, q [B,H,T,d], k
// [B,K,T,d] and v [B,K,T,e] with K dividing H. Found in ONNX's own op and in its formula; the mask becomes the window,
// factors on q and k the scale, and repeated heads vanish. A fourth operand [H] are sinks: scores without a key, which
// the softmax has as a last column.
#include "compiler/import/OnnxMatchers.h"

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

void replaceByAttention(PatternRewriter &rewriter, nn::OnnxOp root, ValueRange inputs, double scale, int64_t window,
                        double softcap, bool isBidirectional = false) {
  SmallVector<NamedAttribute> attributes = {
      rewriter.getNamedAttr("scale", rewriter.getF32FloatAttr(static_cast<float>(scale))),
      rewriter.getNamedAttr("window", rewriter.getI64IntegerAttr(window))};
  if (softcap != 0)
    attributes.push_back(rewriter.getNamedAttr("softcap", rewriter.getF32FloatAttr(static_cast<float>(softcap))));
  if (isBidirectional)
    attributes.push_back(rewriter.getNamedAttr("bidirectional", rewriter.getUnitAttr()));
  replaceByNode(rewriter, root, "Attention", inputs, attributes);
}

/// The window of a mask that is causal.
std::optional<int64_t> matchCausalMask(Value mask) {
  auto causal = mask.getDefiningOp<nn::CausalMaskOp>();
  return causal ? std::optional<int64_t>(causal.getWindow()) : std::nullopt;
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
    std::optional<int64_t> window;
    bool isBidirectional = false;
    if (count == 4)
      window = matchCausalMask(root.getInputs()[3]);
    if (auto band = count == 4 ? root.getInputs()[3].getDefiningOp<nn::BandMaskOp>() : nn::BandMaskOp()) {
      window = band.getWindow();
      isBidirectional = true;
    }
    if (!window && (count == 3 || hidesNothing(root.getInputs()[3]))) {
      window = 0;
      isBidirectional = !getInteger(root, "is_causal");
    }
    Value q = root.getInputs()[0], k = root.getInputs()[1], v = root.getInputs()[2];
    if (!window || getShape(q).size() != 4 || getShape(k).size() != 4 || getShape(v).size() != 4)
      return false;
    double scale = getFloat(root, "scale", 1 / std::sqrt(static_cast<double>(getShape(q).back())));
    replaceByAttention(rewriter, root, {q, matchUnscaledHeads(k), matchUnscaledHeads(v)}, scale, *window,
                       getFloat(root, "softcap"), isBidirectional);
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
    replaceByAttention(rewriter, root, inputs, getFloat(root, "scale") * q.factor * k.factor,
                       getInteger(root, "window"), getFloat(root, "softcap"),
                       static_cast<bool>(getAttribute(root, "bidirectional")));
    return true;
  }
};

/// softmax(scale q kᵀ + mask) v, with or without a softcap before the mask and a column of sinks beside the scores; or
/// without a mask, which an encoder has none of.
struct RaiseAttentionFormula : NodePattern {
  explicit RaiseAttentionFormula(MLIRContext *context) : NodePattern(context, "MatMul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    std::optional<Sunk> sunk = matchSinks(root.getInputs()[0]);
    nn::OnnxOp softmax = getNode(stripNanGuard(root.getInputs()[0]), "Softmax");
    if (!softmax && !sunk)
      return false;
    // Where the mask is added before the scale, what it hides stays hidden.
    Scaled scaled = stripScale(sunk ? sunk->scores : softmax.getInputs()[0]);
    auto masked = scaled.factor > 0 ? matchMasked(scaled.source) : std::nullopt;
    const bool isBidirectional = !masked && !sunk;
    if (isBidirectional)
      masked = Masked{scaled.source, 0};
    if (!masked)
      return false;
    nn::OnnxOp softcap = getNode(masked->logits, "Softcap");
    if (softcap && scaled.factor != 1)
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
    replaceByAttention(rewriter, root, inputs, scaled.factor * logits.factor * q.factor * k->factor, masked->window,
                       softcap ? getFloat(softcap, "softcap") : 0, isBidirectional);
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

  struct Masked {
    Value logits;
    int64_t window;
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

  /// logits + mask, or mask ? logits : a number that hides. A key is seen where several masks show it (GPT-Neo).
  static std::optional<Masked> matchMasked(Value value) {
    auto masked = matchOneMask(value);
    while (auto inner = masked ? matchOneMask(masked->logits) : std::nullopt) {
      bool both = masked->window && inner->window;
      masked = {inner->logits, both ? std::min(masked->window, inner->window) : masked->window + inner->window};
    }
    return masked;
  }

  static std::optional<Masked> matchOneMask(Value value) {
    std::optional<Masked> result;
    matchEitherWay(getNode(value, "Add"), [&](Value logits, Value mask) {
      auto window = matchCausalMask(mask);
      if (window && !getElementTypeOrSelf(mask).isInteger(1))
        result = Masked{logits, *window};
      return result.has_value();
    });
    if (nn::OnnxOp where = getNode(value, "Where")) {
      auto window = matchCausalMask(where.getInputs()[0]);
      auto hidden = getSplat(where.getInputs()[2]);
      if (window && hidden && *hidden <= -1e4)
        result = Masked{where.getInputs()[1], *window};
    }
    return result;
  }
};

} // namespace

void mebp::populateRaiseAttention(RewritePatternSet &patterns) {
  patterns.add<RaiseFusedAttention, RaiseScaledOperand, RaiseAttentionFormula>(patterns.getContext());
}
