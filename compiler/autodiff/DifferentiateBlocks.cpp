// SPDX-License-Identifier: Apache-2.0
//
// Makes the backward function of each layer and the objective of the head (MeBP, section 3; MeSP, section 4.3).
//
// 1. Clone the forward function: the clone recomputes from the checkpoint whatever its backward half reads.
// 2. Differentiate with respect to the flows that come in and the trainable parameters (Differentiate.h). The seeds are
//    new arguments: the cotangents of the flows that go out or, at the head, the coefficients of the log-probabilities.
// 3. Return the results for the caller, the cotangents of the flows that came in, and the gradients. Drop what nobody
//    reads: the last linear layer of a block, for one, is never recomputed.
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
    llvm::StringMap<func::FuncOp> done; // by the name of the function that was differentiated
    for (auto block : getOperation().getOps<train::BlockOp>()) {
      bool isHead = block.getKind() == train::BlockKind::Head;
      func::FuncOp function = block.lookupFunction(isHead ? format::logProbabilitiesProgram : format::forwardProgram);
      if (!function)
        return signalPassFailure();
      if (!hasActiveArguments(function))
        continue; // a table that is frozen
      std::string_view program = isHead ? format::objectiveProgram : format::backwardProgram;
      func::FuncOp &derived = done[function.getSymName()];
      if (!derived) {
        auto stem = function.getSymName().rsplit('.').first;
        derived = differentiateFunction(block, function, (stem + "." + program).str());
        if (!derived)
          return signalPassFailure();
      }
      block.setProgram(program, derived.getSymName());
    }
  }

  /// Whether a flow comes in, whose cotangent goes back, or a parameter is trained.
  static bool hasActiveArguments(func::FuncOp function) {
    return llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
      unsigned number = argument.getArgNumber();
      return train::getArgumentPort(function, number).isFlow() || train::isTrainable(function, number);
    });
  }

  /// The port of an output's cotangent; none of what has none.
  static std::optional<std::pair<train::PortKind, std::string>> getCotangentPort(train::PortAttr output) {
    if (output.isFlow())
      return std::pair(train::PortKind::Flow, format::cotangentOf(std::string_view(output.getName())));
    if (output.is(train::PortKind::Result, format::logProbabilitiesPort))
      return std::pair(train::PortKind::Batch, std::string(format::coefficientsPort));
    return std::nullopt;
  }

  func::FuncOp differentiateFunction(train::BlockOp block, func::FuncOp forward, const std::string &name) {
    OpBuilder builder(forward);
    builder.setInsertionPointAfter(forward);
    auto function = cast<func::FuncOp>(builder.clone(*forward));
    function.setName(name);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());

    SmallVector<Value> active;
    for (BlockArgument argument : function.getArguments())
      if (train::getArgumentPort(function, argument.getArgNumber()).isFlow())
        active.push_back(argument);
    SmallVector<Value> results;
    SmallVector<std::pair<train::PortKind, std::string>> ports;
    Cotangents seeds;
    unsigned next = active.size();
    for (auto [index, output] : llvm::enumerate(terminator.getOperands())) {
      train::PortAttr port = train::getResultPort(function, index);
      if (port.getKind() == train::PortKind::Result) {
        results.push_back(output);
        ports.push_back({port.getKind(), port.getName().str()});
      }
      auto cotangentPort = getCotangentPort(port);
      if (!cotangentPort)
        continue;
      (void)function.insertArgument(next, output.getType(), {}, function.getLoc());
      train::setArgumentPort(function, next, cotangentPort->first, cotangentPort->second);
      Value &seed = seeds[output];
      Value cotangent = function.getArgument(next);
      seed = seed ? nn::AddOp::create(builder, output.getLoc(), seed.getType(), seed, cotangent) : cotangent;
      ++next;
    }
    for (BlockArgument argument : function.getArguments())
      if (train::isTrainable(function, argument.getArgNumber()))
        active.push_back(argument);
    FailureOr<Cotangents> cotangents = differentiate(function, active, seeds);
    if (failed(cotangents))
      return {};

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
        ports.push_back(*getCotangentPort(port));
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
