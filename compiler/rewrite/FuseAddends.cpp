// SPDX-License-Identifier: Apache-2.0
//
// Folds additions into the linear layer that computes one of the summands, where nothing else reads that summand.
#include "compiler/rewrite/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_FUSEADDENDS
#include "compiler/rewrite/Passes.h.inc"

namespace {

template <typename LinearLike> struct FuseAddend : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp add, PatternRewriter &rewriter) const override {
    for (unsigned i = 0; i < 2; ++i) {
      auto linear = add->getOperand(i).getDefiningOp<LinearLike>();
      Value other = add->getOperand(1 - i);
      if (!linear || linear.getAddend() || !linear->hasOneUse() || linear.getType() != add.getType())
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

/// nn.linear(x, w addend nn.linear(h, B)) + r: the inner layer can take r where the outer one has its addend already.
struct FuseIntoInner : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp add, PatternRewriter &rewriter) const override {
    for (unsigned i = 0; i < 2; ++i) {
      auto outer = add->getOperand(i).getDefiningOp<nn::LinearOp>();
      if (!outer || !outer->hasOneUse() || !outer.getAddend())
        continue;
      auto inner = outer.getAddend().getDefiningOp<nn::LinearOp>();
      if (!inner || inner.getAddend() || !inner->hasOneUse())
        continue;
      Value other = add->getOperand(1 - i);
      rewriter.moveOpBefore(inner, add);
      rewriter.moveOpBefore(outer, add);
      rewriter.modifyOpInPlace(inner, [&] { inner.getAddendMutable().assign(other); });
      rewriter.replaceOp(add, outer.getResult());
      return success();
    }
    return failure();
  }
};

struct FuseAddends : impl::FuseAddendsBase<FuseAddends> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseAddend<nn::LinearOp>, FuseAddend<nn::LinearInputGradientOp>, FuseIntoInner>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace mebp
