// SPDX-License-Identifier: Apache-2.0
//
// Projects the gradients of trained matrices as they are made (GaLore, algorithm 2; design: format/projection.h).
//
// Terms: a gradient dW = alpha dyᵀ x of [M,K] is multiplied with a factor on one side: on the right dyᵀ (x Qᵀ), on the
// left (dy P)ᵀ x. Its smaller side is the right one where M >= K.
// 1. A backward's gradient can be projected where it is that of one linear layer of one block, in all blocks that share
//    the function. Others stay as they are: of vectors and tables, of the head, of what several blocks read.
// 2. Beside the backward there are two more programs, each of which gives these gradients and nothing else, multiplied
//    with a sketch on the smaller side or with a range on the other.
// 3. In the backward itself a projector takes the place of the sketch.
#include "compiler/Options.h"
#include "compiler/rewrite/Passes.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"

#include "format/projection.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_PROJECTGRADIENTS
#include "compiler/rewrite/Passes.h.inc"

namespace {

struct Sizes {
  int64_t rows, columns;

  static Sizes of(Value matrix) {
    auto type = cast<RankedTensorType>(matrix.getType());
    return {type.getDimSize(0), type.getDimSize(1)};
  }
  int64_t smaller() const { return std::min(rows, columns); }
};

/// What a program multiplies gradients with.
struct Factor {
  std::string_view suffix;       // of the port that it comes in by
  std::string_view resultSuffix; // of the one by which the product leaves
  bool isOnSmallerSide;
  bool isSketched; // as wide as a sketch is, else as a projector
};
const Factor projector = {format::projectorSuffix, {}, true, false},
             sketch = {format::sketchSuffix, format::rangeSuffix, true, true},
             range = {format::rangeSuffix, format::sketchSuffix, false, true};

struct ProjectGradients : impl::ProjectGradientsBase<ProjectGradients> {
  using ProjectGradientsBase::ProjectGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (std::string wrong = findWrongRank("--galore-rank", rank); !wrong.empty()) {
      module.emitError() << wrong;
      return signalPassFailure();
    }
    llvm::MapVector<StringRef, SmallVector<train::BlockOp>> users; // of each backward
    for (auto block : module.getOps<train::BlockOp>()) {
      for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
        ++readers[name.getValue()];
      if (FlatSymbolRefAttr backward = block.getProgram(format::backwardProgram))
        users[backward.getValue()].push_back(block);
    }
    for (auto &[name, blocks] : users)
      if (failed(project(blocks)))
        return signalPassFailure();
    if (found.empty()) {
      module.emitError("--galore-rank: nothing that is trained is a linear layer's own weight, so there is no "
                       "gradient to project; choose other --train-targets or another optimizer");
      signalPassFailure();
    }
    projected = found.size();
  }

private:
  LogicalResult project(ArrayRef<train::BlockOp> blocks) {
    train::BlockOp first = blocks.front();
    func::FuncOp backward = first.lookupFunction(format::backwardProgram);
    if (!backward)
      return failure();
    SmallVector<unsigned> results;
    for (unsigned result = 0; result < backward.getNumResults(); ++result)
      if (isProjected(blocks, backward, result))
        results.push_back(result);
    for (unsigned result : results)
      for (train::BlockOp block : blocks)
        if (failed(mark(block, backward, result)))
          return failure();
    if (results.empty())
      return success();
    for (auto [program, factor] : {std::pair(format::rangeProgram, sketch), std::pair(format::sketchProgram, range)}) {
      func::FuncOp derived = derive(backward, program, results, factor);
      for (train::BlockOp block : blocks)
        block.setProgram(program, derived.getSymName());
    }
    multiply(backward, results, projector);
    return success();
  }

  bool isProjected(ArrayRef<train::BlockOp> blocks, func::FuncOp backward, unsigned result) {
    train::PortAttr port = train::getResultPort(backward, result);
    if (port.getKind() != train::PortKind::Gradient || !getGradient(backward, result))
      return false;
    return llvm::all_of(
        blocks, [&](train::BlockOp block) { return readers[block.getParameter(port.getName()).getValue()] == 1; });
  }

  static nn::LinearWeightGradientOp getGradient(func::FuncOp function, unsigned result) {
    Value value = cast<func::ReturnOp>(function.getBody().front().getTerminator()).getOperand(result);
    auto gradient = value.getDefiningOp<nn::LinearWeightGradientOp>();
    return gradient && !gradient.getAccumulator() && value.hasOneUse() ? gradient : nn::LinearWeightGradientOp();
  }

  LogicalResult mark(train::BlockOp block, func::FuncOp backward, unsigned result) {
    FlatSymbolRefAttr name = block.getParameter(train::getResultPort(backward, result).getName());
    auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(block, name);
    const Sizes sizes = Sizes::of(getGradient(backward, result).getResult());
    if (rank > sizes.smaller())
      return parameter.emitError() << "--galore-rank " << rank.getValue() << " is above the smaller side of '"
                                   << name.getValue() << "' (" << sizes.rows << " x " << sizes.columns
                                   << "): give at most " << sizes.smaller();
    parameter.setGradientRank(rank);
    found.insert(parameter);
    return success();
  }

  /// A copy that gives nothing but the products.
  func::FuncOp derive(func::FuncOp backward, std::string_view program, ArrayRef<unsigned> results,
                      const Factor &factor) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(backward);
    auto function = cast<func::FuncOp>(builder.clone(*backward));
    function.setName((backward.getSymName().rsplit('.').first + "." + program).str());
    multiply(function, results, factor);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    SmallVector<Value> products;
    SmallVector<std::string> names;
    for (unsigned result : results) {
      products.push_back(terminator.getOperand(result));
      names.push_back(format::nameThin(train::getResultPort(function, result).getName(), factor.resultSuffix));
    }
    terminator->setOperands(products);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(products).getTypes()));
    function.setResAttrsAttr({});
    for (auto [index, name] : llvm::enumerate(names))
      train::setResultPort(function, index, train::PortKind::Gradient, name);
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, function->getRegions());
    return function;
  }

  void multiply(func::FuncOp function, ArrayRef<unsigned> results, const Factor &factor) {
    for (unsigned result : results) {
      nn::LinearWeightGradientOp gradient = getGradient(function, result);
      const Sizes sizes = Sizes::of(gradient.getResult());
      bool isOnRight = format::isProjectedOnRight(sizes.rows, sizes.columns) == factor.isOnSmallerSide;
      int64_t width = factor.isSketched ? format::sketchRank(sizes.rows, sizes.columns, rank) : rank.getValue();
      auto element = cast<RankedTensorType>(gradient.getType()).getElementType();
      auto matrix = [&](int64_t rows, int64_t columns) { return RankedTensorType::get({rows, columns}, element); };
      unsigned argument = function.getNumArguments();
      (void)function.insertArgument(argument, isOnRight ? matrix(width, sizes.columns) : matrix(sizes.rows, width), {},
                                    gradient.getLoc());
      StringRef name = train::getResultPort(function, result).getName();
      train::setArgumentPort(function, argument, train::PortKind::Parameter, format::nameThin(name, factor.suffix));
      Value thin = function.getArgument(argument), dy = gradient.getDy(), x = gradient.getX();
      OpBuilder builder(gradient);
      Type tokens = nn::getTokensType(width, element);
      if (isOnRight)
        x = nn::LinearOp::create(builder, gradient.getLoc(), tokens, x, thin, Value(), Value());
      else
        dy = nn::LinearInputGradientOp::create(builder, gradient.getLoc(), tokens, dy, thin, Value());
      Type product = isOnRight ? matrix(sizes.rows, width) : matrix(width, sizes.columns);
      auto low = nn::LinearWeightGradientOp::create(builder, gradient.getLoc(), product, dy, x, Value(),
                                                    gradient.getAlphaAttr());
      gradient.replaceAllUsesWith(low.getResult());
      gradient.erase();
    }
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    function.setFunctionType(
        FunctionType::get(&getContext(), function.getArgumentTypes(), terminator.getOperandTypes()));
  }

  llvm::StringMap<unsigned> readers; // blocks that bind each parameter
  DenseSet<Operation *> found;       // parameters whose gradients are projected
};

} // namespace
} // namespace mebp
