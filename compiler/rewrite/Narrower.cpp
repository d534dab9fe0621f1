// SPDX-License-Identifier: Apache-2.0
//
// Terms: an exact value stays in f32: statistics of a softmax, what is summed over many tokens, logits, and the loss
// (KernelOpInterface::getExactValues), sums over tiles of the vocabulary, and what the caller gives and takes.
// Parameters, their gradients and scalars are no activations.
// 1. Values in one memory have one type: what a loop carries, a whole and its slices and updates, accumulators. They
//    form classes, and a class with an exact value is exact.
// 2. Of the other classes all become bf16, or those alone of the ports that are asked for.
// 3. Where a value is written into a tensor of another type, or leaves so, it is converted by a kernel of its own:
//    multiplication by one.
// 4. Where all is narrow, an exact cotangent that a linear layer pulls back, such as that of values, which chunks sum
//    up, is kept for other readers alone: the product may round it (nn.linear_input_gradient's `narrow`).
#include "compiler/rewrite/Narrower.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Linear.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;

namespace mebp {

namespace {

bool isActivation(Value value) { return nn::isTokens(value.getType()) && getElementTypeOrSelf(value).isF32(); }

class Narrower {
public:
  Narrower(func::FuncOp function, llvm::function_ref<bool(train::PortAttr, bool)> isChosen)
      : function(function), isChosen(isChosen), builder(function.getContext()) {}

  void run() {
    function.walk([&](Operation *op) { joinValuesOf(op); });
    for (BlockArgument argument : function.getArguments())
      if (isActivation(argument) && comesExact(argument))
        exact.push_back(argument);
    auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    joinKept(terminator);
    for (OpOperand &operand : terminator->getOpOperands())
      if (leavesExact(operand))
        addExact(operand.get());
    function.walk([&](train::UpdateOp update) {
      // Rows of what the caller takes, as a value head gives them.
      if (isActivation(update.getSource()) && llvm::any_of(terminator->getOpOperands(), [&](OpOperand &operand) {
            return leavesExact(operand) && isActivation(operand.get()) &&
                   classes.isEquivalent(operand.get(), update.getResult());
          }))
        exact.push_back(update.getSource());
    });
    for (Value value : exact)
      exactLeaders.insert(classes.getOrInsertLeaderValue(value));
    if (isChosen)
      collectChosen(terminator);

    function.walk([&](Block *block) {
      for (BlockArgument argument : block->getArguments())
        narrow(argument);
      for (Operation &op : *block)
        for (Value result : op.getResults())
          narrow(result);
    });
    function.walk([&](train::UpdateOp update) { convert(update.getSourceMutable(), update.getType()); });
    for (OpOperand &operand : terminator->getOpOperands())
      if (!leavesExact(operand) && !isKept(operand) && nn::isTokens(operand.get().getType()))
        convert(operand, leavesNarrow(operand) ? narrowed(operand.get().getType()) : widened(operand.get().getType()));
    if (!isChosen)
      function.walk([&](nn::LinearInputGradientOp product) {
        if (getElementTypeOrSelf(product.getDy()).isF32())
          product.setNarrow(true);
      });
    function.setFunctionType(
        builder.getFunctionType(function.getBody().front().getArgumentTypes(), terminator->getOperandTypes()));
  }

private:
  void join(Value left, Value right) {
    if (left && right && isActivation(left) && isActivation(right))
      classes.unionSets(left, right);
  }

  void joinValuesOf(Operation *op) {
    if (auto kernel = dyn_cast<nn::KernelOpInterface>(op)) {
      for (OpResult result : op->getResults())
        join(kernel.getAccumulator(result.getResultNumber()), result);
      for (Value value : kernel.getExactValues())
        if (value && isActivation(value))
          exact.push_back(value);
    } else if (auto loop = dyn_cast<train::LoopOp>(op)) {
      // Sums over the vocabulary.
      if (loop.getDomain() == train::Domain::WeightRows)
        llvm::copy_if(loop.getInits(), std::back_inserter(exact), isActivation);
      for (auto [init, argument, yielded, result] :
           llvm::zip(loop.getInits(), loop.getCarried(), loop.getYield().getValues(), loop.getResults()))
        for (Value other : {Value(argument), Value(yielded), Value(result)})
          join(init, other);
    } else if (auto slice = dyn_cast<train::SliceOp>(op)) {
      join(slice.getSource(), slice.getResult());
    } else if (auto update = dyn_cast<train::UpdateOp>(op)) {
      join(update.getDestination(), update.getResult());
    }
  }

  /// A value for the caller, and what it may lie in the place of: logits before their cap need no memory of their own.
  void addExact(Value value) {
    while (value && isActivation(value)) {
      exact.push_back(value);
      auto kernel = value.getDefiningOp<nn::KernelOpInterface>();
      value = kernel ? kernel.getReusable(cast<OpResult>(value).getResultNumber()) : Value();
    }
  }

  /// What is of the batch is the caller's; what several blocks add up is a sum over many tokens.
  bool comesExact(BlockArgument argument) {
    train::PortAttr port = train::getArgumentPort(function, argument.getArgNumber());
    return port && (port.getKind() == train::PortKind::Batch || port.isSharedCotangent());
  }

  /// Results are for the caller.
  bool leavesExact(OpOperand &returned) {
    train::PortAttr port = train::getResultPort(function, returned.getOperandNumber());
    return port && (port.getKind() == train::PortKind::Result || port.isSharedCotangent());
  }

  /// As it was computed, so that the backward has the bits that it would compute.
  bool isKept(OpOperand &returned) {
    train::PortAttr port = train::getResultPort(function, returned.getOperandNumber());
    return port && port.getKind() == train::PortKind::Kept;
  }

  /// What is kept whole has its rows' type.
  void joinKept(func::ReturnOp terminator) {
    function.walk([&](train::UpdateOp update) {
      if (llvm::any_of(terminator->getOpOperands(), [&](OpOperand &operand) {
            return isKept(operand) && isActivation(operand.get()) &&
                   classes.isEquivalent(operand.get(), update.getResult());
          }))
        join(update.getSource(), update.getResult());
    });
  }

  bool leavesNarrow(OpOperand &returned) {
    return !isChosen || isChosen(train::getResultPort(function, returned.getOperandNumber()), false);
  }

  /// The classes of what comes in, and of what goes out, by a chosen port.
  void collectChosen(func::ReturnOp terminator) {
    auto add = [&](Value value, train::PortAttr port, bool comesIn) {
      if (isActivation(value) && isChosen(port, comesIn))
        chosenLeaders.insert(classes.getOrInsertLeaderValue(value));
    };
    for (BlockArgument argument : function.getArguments())
      add(argument, train::getArgumentPort(function, argument.getArgNumber()), true);
    for (OpOperand &operand : terminator->getOpOperands())
      add(operand.get(), train::getResultPort(function, operand.getOperandNumber()), false);
  }

  Type widened(Type type) { return cast<RankedTensorType>(type).clone(builder.getF32Type()); }
  Type narrowed(Type type) { return cast<RankedTensorType>(type).clone(builder.getBF16Type()); }

  /// Nobody reads it, and in f32 it needs no memory of its own: as the tile of a loss without a gradient.
  bool isLeftInPlace(Value value) {
    auto kernel = value.getDefiningOp<nn::KernelOpInterface>();
    Value reusable =
        kernel && value.use_empty() ? kernel.getReusable(cast<OpResult>(value).getResultNumber()) : Value();
    return reusable && getElementTypeOrSelf(reusable).isF32();
  }

  void narrow(Value value) {
    if (!isActivation(value))
      return;
    if (isLeftInPlace(value))
      return;
    Value leader = classes.getOrInsertLeaderValue(value);
    if (!exactLeaders.contains(leader) && (!isChosen || chosenLeaders.contains(leader)))
      value.setType(narrowed(value.getType()));
  }

  void convert(OpOperand &operand, Type type) {
    if (cast<RankedTensorType>(operand.get().getType()).getElementType() ==
        cast<RankedTensorType>(type).getElementType())
      return;
    builder.setInsertionPoint(operand.getOwner());
    Type rounded = cast<RankedTensorType>(operand.get().getType()).clone(cast<RankedTensorType>(type).getElementType());
    operand.set(nn::ScaleOp::create(builder, operand.get().getLoc(), rounded, operand.get(),
                                    builder.getF32FloatAttr(1.0f), FloatAttr()));
  }

  func::FuncOp function;
  llvm::function_ref<bool(train::PortAttr, bool)> isChosen; // null: all
  OpBuilder builder;
  llvm::EquivalenceClasses<Value> classes;
  SmallVector<Value> exact;
  DenseSet<Value> exactLeaders, chosenLeaders;
};

} // namespace

void narrowActivations(func::FuncOp function, llvm::function_ref<bool(train::PortAttr, bool)> isChosen) {
  Narrower(function, isChosen).run();
}

} // namespace mebp
