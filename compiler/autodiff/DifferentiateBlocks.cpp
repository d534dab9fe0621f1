// SPDX-License-Identifier: Apache-2.0
//
// Makes the backward function of each layer and the objective of the head (MeBP, section 3; MeSP, section 4.3).
//
// 1. Clone the forward function: the clone recomputes from the checkpoint whatever its backward half reads.
// 2. Differentiate with respect to the flows that come in and the trainable parameters (Differentiate.h); the seeds are
//    the cotangents of the flows that go out, new arguments, or for the head the objective itself.
// 3. Return the cotangents of the flows that came in and the gradients. Drop what nobody reads: the last linear layer
// of a
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
      func::FuncOp function = block.lookupFunction(isHead ? format::lossProgram : format::forwardProgram);
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
      block.setProgram(isHead ? format::objectiveProgram : format::backwardProgram, derived.getSymName());
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

    SmallVector<Value> active;
    for (BlockArgument argument : function.getArguments())
      if (train::getArgumentPort(function, argument.getArgNumber()).isFlow())
        active.push_back(argument);
    Cotangents seeds;
    if (isObjective) {
      if (!terminator.getOperand(0).getDefiningOp<nn::LinearCrossEntropyOp>()) {
        forward.emitError() << "the loss of block '" << block.getSymName() << "' is not nn.linear_cross_entropy";
        return {};
      }
      seeds[terminator.getOperand(0)] = Value();
    } else {
      unsigned next = active.size();
      for (auto [index, output] : llvm::enumerate(terminator.getOperands())) {
        (void)function.insertArgument(next, output.getType(), {}, function.getLoc());
        train::setArgumentPort(function, next, train::PortKind::Flow,
                               format::cotangentOf(std::string_view(train::getResultPort(function, index).getName())));
        Value &seed = seeds[output];
        Value cotangent = function.getArgument(next);
        seed = seed ? nn::AddOp::create(builder, output.getLoc(), seed.getType(), seed, cotangent) : cotangent;
        ++next;
      }
    }
    for (BlockArgument argument : function.getArguments())
      if (train::isTrainable(function, argument.getArgNumber()))
        active.push_back(argument);
    FailureOr<Cotangents> cotangents = differentiate(function, active, seeds);
    if (failed(cotangents))
      return {};

    SmallVector<Value> results;
    SmallVector<std::pair<train::PortKind, std::string>> ports;
    if (isObjective) {
      results.push_back(terminator.getOperand(0)); // by now the gradient op's own loss
      ports.push_back({train::PortKind::Result, std::string(format::lossPort)});
    }
    for (Value value : active) {
      train::PortAttr port = train::getArgumentPort(function, cast<BlockArgument>(value).getArgNumber());
      Value cotangent = cotangents->lookup(value);
      bool isFlow = port.isFlow();
      if (!cotangent) {
        if (isFlow)
          function.emitError() << "nothing in block '" << block.getSymName() << "' depends on its input";
        else
          function.emitError() << "trainable parameter " << block.getParameter(port.getName())
                               << " gets no gradient: nothing that the loss depends on reads it";
        return {};
      }
      results.push_back(cotangent);
      if (isFlow)
        ports.push_back({train::PortKind::Flow, format::cotangentOf(std::string_view(port.getName()))});
      else
        ports.push_back({train::PortKind::Gradient, port.getName().str()});
      gradients += !isFlow;
    }
    terminator->setOperands(results);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    function.setResAttrsAttr({});
    for (auto [index, port] : llvm::enumerate(ports))
      train::setResultPort(function, index, port.first, port.second);
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, function->getRegions());
    return function;
  }
};

} // namespace
} // namespace mebp
