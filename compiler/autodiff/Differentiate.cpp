// SPDX-License-Identifier: Apache-2.0
//
// Reverse-mode differentiation of straight-line nn code.
//
// Terms: a value is active if it depends on an active argument; a cotangent is dL/d(value).
// 1. Forward: mark the active values.
// 2. Backward, op by op from the last: if a result has a cotangent, the op's own rule (DifferentiableOpInterface)
//    gives those of its active operands, and of no other: what is frozen costs nothing.
// 3. A value with several readers sums what comes back from each.
// New ops carry the forward op's location fused with "gradient", so that a report can name the layer.
#include "compiler/autodiff/Differentiate.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Locations.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {

FailureOr<Cotangents> differentiate(func::FuncOp function, ArrayRef<Value> activeArguments, const Cotangents &seeds) {
  Block &body = function.getBody().front();
  SmallVector<Operation *> forward;
  DenseSet<Value> active(activeArguments.begin(), activeArguments.end());
  for (Operation &op : body.without_terminator()) {
    forward.push_back(&op);
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); }))
      active.insert(op.result_begin(), op.result_end());
  }

  Cotangents cotangents = seeds;
  OpBuilder builder(body.getTerminator());
  for (Operation *op : llvm::reverse(forward)) {
    bool reached = llvm::any_of(op->getResults(), [&](Value result) { return cotangents.count(result); });
    if (!reached)
      continue;
    llvm::SmallBitVector wanted(op->getNumOperands());
    for (OpOperand &operand : op->getOpOperands())
      if (active.contains(operand.get()))
        wanted.set(operand.getOperandNumber());
    if (wanted.none())
      continue;
    auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitError() << "'" << op->getName() << "' has no gradient rule, but a trainable parameter or an "
                             << "earlier block lies behind it";

    SmallVector<Value> ofResults;
    for (Value result : op->getResults())
      ofResults.push_back(cotangents.lookup(result));
    SmallVector<Value> gradients(op->getNumOperands());
    Operation *before = body.getTerminator()->getPrevNode();
    if (failed(differentiable.buildGradient(builder, ofResults, wanted, gradients)))
      return failure();

    for (OpOperand &operand : op->getOpOperands()) {
      Value gradient = gradients[operand.getOperandNumber()];
      if (!wanted.test(operand.getOperandNumber()) || !gradient)
        continue;
      Value &sum = cotangents[operand.get()];
      sum = sum ? nn::AddOp::create(builder, op->getLoc(), sum.getType(), sum, gradient).getResult() : gradient;
    }
    for (Operation *added = before->getNextNode(); added != body.getTerminator(); added = added->getNextNode())
      added->setLoc(nn::makeGradientLocation(op->getLoc()));
  }
  return cotangents;
}

} // namespace mebp
