// SPDX-License-Identifier: Apache-2.0
//
// Attention of heads that are part of the batch, [B·H,T,d], as batched products have it. A Reshape that merges [B,H,..]
// into [B·H,..] moves behind what reads it, until it meets the one that parts them again, and both vanish:
// RaiseAttention.cpp then finds [B,H,T,d].
#include "compiler/import/OnnxMatchers.h"
#include "dialects/nn/ImportOps.h"

using namespace mlir;
using namespace mebp;

namespace {

/// The [B,H,M,K] that a value [B·H,M,K] is; null where it is none.
Value getParted(Value value) {
  nn::OnnxOp view = getNode(value, "Reshape");
  if (!view)
    return {};
  ArrayRef<int64_t> merged = getShape(value), parted = getShape(view.getInputs()[0]);
  bool merges = merged.size() == 3 && parted.size() == 4 && merged.drop_front() == parted.drop_front(2);
  return merges ? view.getInputs()[0] : Value();
}

Value createNode(PatternRewriter &rewriter, nn::OnnxOp root, StringRef op, ValueRange inputs, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(root.getOutputs()[0].getType()).clone(shape);
  return nn::OnnxOp::create(rewriter, root.getLoc(), TypeRange(type), rewriter.getStringAttr(op), inputs,
                            root.getOpType() == op ? root.getNodeAttributesAttr() : DictionaryAttr())
      .getResult(0);
}

/// [B,H,M,N] of a value [B·H,M,N], with the heads of `parted`.
SmallVector<int64_t> partedShape(Value merged, Value parted) {
  SmallVector<int64_t> shape(getShape(parted).take_front(2));
  llvm::append_range(shape, getShape(merged).drop_front());
  return shape;
}

/// A product of two such.
struct PartProduct : NodePattern {
  explicit PartProduct(MLIRContext *context) : NodePattern(context, "MatMul") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    Value a = getParted(root.getInputs()[0]), b = root.getInputs()[1];
    if (!a || getShape(b).size() != 3 || getShape(b).front() != getShape(root.getInputs()[0]).front())
      return false;
    b = createNode(rewriter, root, "Reshape", b, partedShape(b, a));
    Value product = createNode(rewriter, root, "MatMul", {a, b}, partedShape(root.getOutputs()[0], a));
    replaceByNode(rewriter, root, "Reshape", product);
    return true;
  }
};

/// What computes with each score, and softmax.
struct PartScores : NodePattern {
  PartScores(MLIRContext *context, StringRef op) : NodePattern(context, op) {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    if (root.getInputs().size() == 1)
      return part(root, rewriter, root.getInputs()[0], {});
    return matchEitherWay(root, [&](Value x, Value other) { return part(root, rewriter, x, other); });
  }

private:
  static bool part(nn::OnnxOp root, PatternRewriter &rewriter, Value merged, Value other) {
    Value parted = getParted(merged);
    if (!parted || getShape(merged) != getShape(root.getOutputs()[0]))
      return false;
    SmallVector<Value> inputs{parted};
    if (other) {
      // A number; or a bias of each head.
      ArrayRef<int64_t> own = getShape(other);
      const bool isNumber = getSplat(other) && own.size() <= 1;
      if (!isNumber && !(other.getDefiningOp<nn::PositionBiasOp>() && own.size() == 3 && own[0] == getShape(merged)[0]))
        return false;
      inputs.push_back(isNumber ? other : createNode(rewriter, root, "Reshape", other, partedShape(other, parted)));
    }
    Value computed = createNode(rewriter, root, root.getOpType(), inputs, partedShape(root.getOutputs()[0], parted));
    replaceByNode(rewriter, root, "Reshape", computed);
    return true;
  }
};

/// Parts what was merged just before.
struct DropParting : NodePattern {
  explicit DropParting(MLIRContext *context) : NodePattern(context, "Reshape") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    Value parted = getParted(root.getInputs()[0]);
    if (!parted || parted.getType() != root.getOutputs()[0].getType())
      return false;
    rewriter.replaceOp(root, parted);
    return true;
  }
};

/// A batched product is added to something, which may be nothing.
struct DropZeros : NodePattern {
  explicit DropZeros(MLIRContext *context) : NodePattern(context, "Add") {}
  bool raise(nn::OnnxOp root, PatternRewriter &rewriter) const override {
    return matchEitherWay(root, [&](Value x, Value zeros) {
      if (!isSplat(zeros, 0) || x.getType() != root.getOutputs()[0].getType())
        return false;
      rewriter.replaceOp(root, x);
      return true;
    });
  }
};

} // namespace

void mebp::populateRaiseBatchedHeads(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<PartProduct, DropParting, DropZeros>(context);
  for (StringRef op : {"Add", "Mul", "Softmax"})
    patterns.add<PartScores>(context, op);
}
