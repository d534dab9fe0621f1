// SPDX-License-Identifier: Apache-2.0
//
// Folds what is added to a linear layer's result into the layer.
//
// 1. A product of low rank, LoRA's own, becomes the layer's `low`: its few columns are multiplied while a tile of the
//    result is at hand, instead of in a pass of their own over the whole of it, rounded once more.
// 2. Any other sum becomes the layer's `addend`, where nothing else reads the layer's result.
// A layer has one of each. What is added to a layer that has its addend already stays a sum of its own.
#include "compiler/rewrite/LowRank.h"
#include "compiler/rewrite/Passes.h"
#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Linear.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_FUSEADDENDS
#include "compiler/rewrite/Passes.h.inc"

namespace {

/// What grows expert by expert is f32, and so would its addend be: no other value is made wider for it.
bool takes(nn::ExpertLinearSharedGradientOp, Value other) {
  return other.getDefiningOp<nn::ExpertLinearSharedGradientOp>() != nullptr;
}
template <typename LinearLike> bool takes(LinearLike, Value) { return true; }

template <typename LinearLike> struct FuseAddend : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp add, PatternRewriter &rewriter) const override {
    for (unsigned i = 0; i < 2; ++i) {
      auto linear = add->getOperand(i).getDefiningOp<LinearLike>();
      Value other = add->getOperand(1 - i);
      if (!linear || linear.getAddend() || !linear->hasOneUse() || linear.getType() != add.getType() ||
          !takes(linear, other))
        continue;
      // The layer moves down to the sum, where the other summand is known.
      rewriter.moveOpBefore(linear, add);
      rewriter.modifyOpInPlace(linear, [&] { linear.getAddendMutable().assign(other); });
      rewriter.replaceOp(add, linear.getResult());
      return success();
    }
    return failure();
  }
};

Value leftOf(nn::LinearOp op) { return op.getX(); }
Value leftOf(nn::LinearInputGradientOp op) { return op.getDy(); }
bool hasBias(nn::LinearOp op) { return op.getBias() != nullptr; }
bool hasBias(nn::LinearInputGradientOp) { return false; }

/// wide(x, w addend narrow(t, b addend rest)) and narrow(t, b addend wide(x, w addend rest)) become
/// wide(x, w addend rest low t, b).
template <typename LinearLike> struct FuseLowRank : OpRewritePattern<LinearLike> {
  using OpRewritePattern<LinearLike>::OpRewritePattern;

  LogicalResult matchAndRewrite(LinearLike outer, PatternRewriter &rewriter) const override {
    auto inner = outer.getAddend() ? outer.getAddend().template getDefiningOp<LinearLike>() : LinearLike();
    if (!inner || !inner->hasOneUse() || inner.getType() != outer.getType())
      return failure();
    bool innerIsLow = nn::features(leftOf(inner)) < nn::features(leftOf(outer));
    LinearLike low = innerIsLow ? inner : outer, wide = innerIsLow ? outer : inner;
    int64_t rank = nn::features(leftOf(low));
    if (!isLowRank(rank, nn::features(leftOf(wide))) || hasBias(low) || low.getLow() || wide.getLow() ||
        !wide.getAlpha().isExactlyValue(1.0))
      return failure();
    auto fused = cast<LinearLike>(rewriter.clone(*wide));
    rewriter.moveOpBefore(fused, outer);
    fused.getAddendMutable().assign(inner.getAddend() ? ValueRange(inner.getAddend()) : ValueRange());
    fused.getLowMutable().assign(leftOf(low));
    fused.getLowWeightMutable().assign(low.getWeight());
    fused.setLowAlphaAttr(low.getAlphaAttr());
    rewriter.replaceOp(outer, fused.getResult());
    rewriter.eraseOp(inner);
    return success();
  }
};

struct FuseAddends : impl::FuseAddendsBase<FuseAddends> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseLowRank<nn::LinearOp>, FuseLowRank<nn::LinearInputGradientOp>>(&getContext(), 2);
    patterns.add<FuseAddend<nn::LinearOp>, FuseAddend<nn::LinearInputGradientOp>, FuseAddend<nn::ExpertLinearOp>,
                 FuseAddend<nn::ExpertLinearInputGradientOp>, FuseAddend<nn::ExpertLinearSharedGradientOp>>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace mebp
