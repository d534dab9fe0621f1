// SPDX-License-Identifier: Apache-2.0
//
// Makes the backward function of each layer and the objective of the head (MeBP, section 3; MeSP, section 4.3).
//
// 1. Clone the forward function: the clone recomputes from the checkpoint whatever its backward half reads.
// 2. Differentiate with respect to the checkpoint and the trainable parameters (Differentiate.h); the seed is the
//    cotangent of the output, a new argument, or for the head the objective itself.
// 3. Return the cotangent of the checkpoint and the gradients. Drop what nobody reads: the last linear layer of a
//    block, for one, is never recomputed.
#include "compiler/autodiff/Differentiate.h"
#include "compiler/autodiff/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_DIFFERENTIATEBLOCKS
#include "compiler/autodiff/Passes.h.inc"

namespace {

struct DifferentiateBlocks : impl::DifferentiateBlocksBase<DifferentiateBlocks> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<func::FuncOp> done; // by the name of the function that was differentiated
    for (auto block : module.getOps<train::BlockOp>()) {
      bool isHead = block.getKind() == train::BlockKind::Head;
      if (block.getKind() == train::BlockKind::Embed)
        continue;
      func::FuncOp function = block.lookupFunction(isHead ? train::ProgramUse::Loss : train::ProgramUse::Forward);
      if (!function)
        return signalPassFailure();
      func::FuncOp &derived = done[function.getSymName()];
      if (!derived) {
        StringRef stem = function.getSymName();
        stem.consume_back(isHead ? ".loss" : ".forward");
        derived = differentiateFunction(block, function, (stem + (isHead ? ".objective" : ".backward")).str(), isHead);
        if (!derived)
          return signalPassFailure();
      }
      auto reference = FlatSymbolRefAttr::get(derived.getSymNameAttr());
      isHead ? block.setObjectiveAttr(reference) : block.setBackwardAttr(reference);
    }
  }

  func::FuncOp differentiateFunction(train::BlockOp block, func::FuncOp forward, const std::string &name,
                                     bool isObjective) {
    OpBuilder builder(forward);
    builder.setInsertionPointAfter(forward);
    auto function = cast<func::FuncOp>(builder.clone(*forward));
    function.setName(name);
    Block &body = function.getBody().front();
    auto terminator = cast<func::ReturnOp>(body.getTerminator());

    Cotangents seeds;
    if (isObjective) {
      if (!terminator.getOperand(0).getDefiningOp<nn::LinearCrossEntropyOp>()) {
        forward.emitError() << "the loss of block '" << block.getSymName() << "' is not nn.linear_cross_entropy";
        return {};
      }
      seeds[terminator.getOperand(0)] = Value();
    } else {
      Value output = terminator.getOperand(0);
      (void)function.insertArgument(1, output.getType(), {}, function.getLoc());
      train::setArgumentRole(function, 1, train::Role::Cotangent);
      seeds[output] = function.getArgument(1);
    }
    SmallVector<Value> active = {function.getArgument(0)};
    for (BlockArgument argument : function.getArguments())
      if (train::isTrainable(function, argument.getArgNumber()))
        active.push_back(argument);
    FailureOr<Cotangents> cotangents = differentiate(function, active, seeds);
    if (failed(cotangents))
      return {};

    SmallVector<Value> results;
    SmallVector<std::pair<train::Role, std::optional<int64_t>>> roles; // with the parameter of a gradient
    if (isObjective) {
      results.push_back(terminator.getOperand(0)); // by now the gradient op's own loss
      roles.push_back({train::Role::Loss, std::nullopt});
    }
    for (Value value : active) {
      auto argument = cast<BlockArgument>(value);
      Value cotangent = cotangents->lookup(value);
      bool isInput = argument.getArgNumber() == 0;
      auto parameter = static_cast<int64_t>(train::getArgumentParameter(function, argument.getArgNumber()));
      if (!cotangent) {
        if (isInput)
          function.emitError() << "nothing in block '" << block.getSymName() << "' depends on its input";
        else
          function.emitError() << "trainable parameter " << block.getParameters()[parameter]
                               << " gets no gradient: nothing that the loss depends on reads it";
        return {};
      }
      results.push_back(cotangent);
      if (isInput)
        roles.push_back({train::Role::Cotangent, std::nullopt});
      else
        roles.push_back({train::Role::Gradient, parameter});
      gradients += !isInput;
    }
    terminator->setOperands(results);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    function.setResAttrsAttr({});
    for (auto [index, role] : llvm::enumerate(roles))
      train::setResultRole(function, index, role.first, role.second);
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, function->getRegions());
    return function;
  }
};

} // namespace
} // namespace mebp
