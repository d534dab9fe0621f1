// SPDX-License-Identifier: Apache-2.0
//
// Folds additions into the linear layer that computes one of the summands, where nothing else reads that summand. A
// layer with LoRA beside it has its addend already; what is added to that stays a sum of its own: in bf16, a residual
// stream that goes through two products would be rounded twice.
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

struct FuseAddends : impl::FuseAddendsBase<FuseAddends> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseAddend<nn::LinearOp>, FuseAddend<nn::LinearInputGradientOp>>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace mebp
