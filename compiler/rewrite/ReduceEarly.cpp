// SPDX-License-Identifier: Apache-2.0
//
// Runs what turns large values into small ones as soon as it can (MeSP, the order of a layer's backward).
//
// Terms: an op reduces if each of its results has fewer features than one of its operands, or is the gradient of a
// parameter. What it makes costs little to keep, and what it reads may be gone before the next large value comes.
// 1. An op that reduces what dropout gives has a dropout of its own, which costs less than to keep what it gives.
// 2. In their order, put each op that reduces behind the last op that it reads from, or at the beginning.
// So down_proj's adapter has read silu(gate) * up before the cotangent of that is made: of the four values as wide as
// the MLP, three are there at once. Nothing is computed in another way; the results are the same bits.
#include "compiler/rewrite/Passes.h"
#include "dialects/nn/Arithmetic.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_REDUCEEARLY
#include "compiler/rewrite/Passes.h.inc"

namespace {

bool reduces(Operation &op) {
  if (!isa<nn::KernelOpInterface>(op))
    return false;
  int64_t widest = 0;
  for (Value operand : op.getOperands())
    if (nn::isTokens(operand.getType()))
      widest = std::max(widest, nn::features(operand));
  return widest > 0 && llvm::all_of(op.getResults(), [&](Value result) {
           return !nn::isTokens(result.getType()) || nn::features(result) < widest;
         });
}

struct ReduceEarly : impl::ReduceEarlyBase<ReduceEarly> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &body = getOperation().getBody().front();
    repeatDropouts(body);
    DenseSet<Operation *> moved;
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
      if (!reduces(op))
        continue;
      Operation *last = nullptr;
      SmallVector<Operation *> dropouts;
      auto readFrom = [&](Value operand) {
        if (Operation *definition = operand.getDefiningOp())
          last = last && definition->isBeforeInBlock(last) ? last : definition;
      };
      for (Value operand : op.getOperands()) {
        auto dropout = operand.getDefiningOp<nn::DropoutOp>();
        readFrom(dropout ? dropout.getX() : operand);
        if (dropout)
          dropouts.push_back(dropout);
      }
      // Behind those that were put there before it.
      Operation *next = last ? last->getNextNode() : &body.front();
      while (moved.contains(next))
        next = next->getNextNode();
      for (Operation *dropout : dropouts) {
        if (dropout == next)
          next = next->getNextNode();
        else
          dropout->moveBefore(next);
        moved.insert(dropout);
      }
      if (next != &op)
        op.moveBefore(next);
      moved.insert(&op);
    }
  }

  static void repeatDropouts(Block &body) {
    for (auto dropout : llvm::make_early_inc_range(body.getOps<nn::DropoutOp>()))
      for (OpOperand &use : llvm::make_early_inc_range(dropout->getUses()))
        if (!dropout->hasOneUse() && reduces(*use.getOwner())) {
          OpBuilder builder(use.getOwner());
          use.set(cast<nn::DropoutOp>(builder.clone(*dropout)));
        }
  }
};

} // namespace
} // namespace mebp
