// SPDX-License-Identifier: Apache-2.0
//
// Makes the backward function of each layer and the objective of the head (MeBP, section 3; MeSP, section 4.3).
//
// 1. Clone the forward function: the clone recomputes from the checkpoint whatever its backward half reads.
// 2. Differentiate with respect to the active arguments (Activity.h): the trainable parameters, and what is passed in,
//    by the block before or by another program of the block, if it depends on one (Differentiate.h). A block without
//    any has no backward. The seeds are new arguments: the cotangents of what is passed on or, at the head, the
//    coefficients of the log-probabilities, and of what else an objective may depend on.
// 3. Return the results for the caller, the cotangents of what was passed in, and the gradients. Drop what nobody
//    reads: the last linear layer of a block, for one, is never recomputed.
// 4. Where two programs of a block take one flow, the backward of the later one comes first, and the other adds to its
//    cotangent. Likewise of what several blocks share: the backward of each that reads it adds to its cotangent.
#include "compiler/autodiff/Activity.h"
#include "compiler/autodiff/Differentiate.h"
#include "compiler/autodiff/Passes.h"
#include "dialects/nn/Arithmetic.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_DIFFERENTIATEBLOCKS
#include "compiler/autodiff/Passes.h.inc"

namespace {

struct DifferentiateBlocks : impl::DifferentiateBlocksBase<DifferentiateBlocks> {
  using DifferentiateBlocksBase::DifferentiateBlocksBase;

  void runOnOperation() override {
    Activity activity(getOperation());
    for (auto block : getOperation().getOps<train::BlockOp>()) {
      LogicalResult result = success();
      activity.beginBlock();
      if (block.getKind() == train::BlockKind::Head)
        result = derive(activity, block, format::logProbabilitiesProgram, format::objectiveProgram);
      for (const format::ProgramTraits &program : train::getForwardPrograms(block))
        if (succeeded(result))
          result = derive(activity, block, program.name, program.backward);
      if (failed(result))
        return signalPassFailure();
    }
  }

  LogicalResult derive(Activity &activity, train::BlockOp block, std::string_view from, std::string_view program) {
    func::FuncOp function = block.lookupFunction(from);
    if (!function)
      return failure();
    const llvm::SmallBitVector active = activity.enter(block, function);
    if (active.none())
      return success();
    SmallVector<Derived> &known = done[function.getSymName()];
    auto entry = llvm::find_if(known, [&](const Derived &one) { return one.active == active; });
    func::FuncOp derived = entry == known.end() ? func::FuncOp() : entry->function;
    if (!derived) {
      auto stem = function.getSymName().rsplit('.').first;
      std::string name = (stem + "." + StringRef(program)).str();
      if (hasInactiveInput(function, active))
        name += known.empty() ? ".partial" : ".partial." + std::to_string(known.size());
      derived = differentiateFunction(block, function, active, name);
      if (!derived)
        return failure();
      addCotangents(derived, format::addsCotangents(program) ? &train::PortAttr::isCotangent
                                                             : &train::PortAttr::isSharedCotangent);
      known.push_back({active, derived});
    }
    block.setProgram(program, derived.getSymName());
    return success();
  }

  /// Each of these cotangents that goes out is added to one that comes in.
  void addCotangents(func::FuncOp function, bool (train::PortAttr::*isAdded)() const) {
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    OpBuilder builder(terminator);
    for (OpOperand &output : terminator->getOpOperands()) {
      train::PortAttr port = train::getResultPort(function, output.getOperandNumber());
      if (!(port.*isAdded)())
        continue;
      unsigned index = 1; // behind the flow that it is of
      (void)function.insertArgument(index, output.get().getType(), {}, function.getLoc());
      train::setArgumentPort(function, index, port.getKind(), port.getName());
      Value sum = nn::AddOp::create(builder, output.get().getLoc(), output.get().getType(), function.getArgument(index),
                                    output.get());
      output.set(sum);
    }
  }

  /// Whether it is passed something in whose cotangent nobody asks for.
  static bool hasInactiveInput(func::FuncOp function, const llvm::SmallBitVector &active) {
    return llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
      const unsigned number = argument.getArgNumber();
      return train::getArgumentPort(function, number).isPassed() && !active.test(number);
    });
  }

  /// The port of an output's cotangent; none of what has none.
  std::optional<std::pair<train::PortKind, std::string>> getCotangentPort(train::PortAttr output) {
    if (output.isPassed())
      return std::pair(output.getKind(), format::cotangentOf(std::string_view(output.getName())));
    auto taken = [](std::string_view name) { return std::pair(train::PortKind::Batch, std::string(name)); };
    if (output.is(train::PortKind::Result, format::logProbabilitiesPort))
      return taken(format::coefficientsPort);
    if (output.is(train::PortKind::Result, format::valuesPort))
      return taken(format::valueCoefficientsPort);
    if (output.is(train::PortKind::Result, format::expertScoresPort))
      return taken(format::expertCostsPort);
    if (entropy && output.is(train::PortKind::Result, format::entropyPort))
      return taken(format::entropyCoefficientsPort);
    return std::nullopt;
  }

  func::FuncOp differentiateFunction(train::BlockOp block, func::FuncOp forward, const llvm::SmallBitVector &isActive,
                                     const std::string &name) {
    OpBuilder builder(forward);
    builder.setInsertionPointAfter(forward);
    auto function = cast<func::FuncOp>(builder.clone(*forward));
    function.setName(name);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());

    SmallVector<Value> active, trainable;
    unsigned next = 0; // behind what is passed in
    for (BlockArgument argument : function.getArguments()) {
      const unsigned number = argument.getArgNumber();
      next += train::getArgumentPort(function, number).isPassed();
      if (isActive.test(number))
        (train::isTrainable(function, number) ? trainable : active).push_back(argument);
    }
    llvm::append_range(active, trainable);
    SmallVector<Value> results;
    SmallVector<std::pair<train::PortKind, std::string>> ports;
    Cotangents seeds;
    for (auto [index, output] : llvm::enumerate(terminator.getOperands())) {
      train::PortAttr port = train::getResultPort(function, index);
      if (port.getKind() == train::PortKind::Result && block.getKind() == train::BlockKind::Head) {
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
    FailureOr<Cotangents> cotangents = differentiate(function, active, seeds);
    if (failed(cotangents))
      return {};

    for (Value value : active) {
      train::PortAttr port = train::getArgumentPort(function, cast<BlockArgument>(value).getArgNumber());
      Value cotangent = cotangents->lookup(value);
      bool isPassed = port.isPassed();
      if (!cotangent) {
        if (isPassed)
          function.emitError() << "nothing in block '" << block.getSymName() << "' depends on its input";
        else
          function.emitError() << "trainable parameter " << block.getParameter(port.getName())
                               << " gets no gradient: nothing that the loss depends on reads it";
        return {};
      }
      results.push_back(cotangent);
      if (isPassed)
        ports.push_back(*getCotangentPort(port));
      else
        ports.push_back({train::PortKind::Gradient, port.getName().str()});
      gradients += !isPassed;
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

  struct Derived {
    llvm::SmallBitVector active; // arguments of the function that was differentiated
    func::FuncOp function;
  };
  llvm::StringMap<SmallVector<Derived>> done; // by that one's name
};

} // namespace
} // namespace mebp
