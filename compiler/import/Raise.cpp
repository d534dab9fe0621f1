// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxMatchers.h"
#include "compiler/import/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mebp;

namespace mebp {
#define GEN_PASS_DEF_RAISE
#include "compiler/import/Passes.h.inc"
} // namespace mebp

namespace {

struct Raise : mebp::impl::RaiseBase<Raise> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateRaiseNorm(patterns);
    populateRaiseRope(patterns);
    populateRaiseActivation(patterns);
    populateRaiseExperts(patterns);
    populateRaiseRecurrences(patterns);
    populateRaiseLinear(patterns);
    populateRaiseAttention(patterns);
    populateRaiseBatchedHeads(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
  }
};

} // namespace
