// SPDX-License-Identifier: Apache-2.0
#include "compiler/autodiff/Activity.h"

using namespace mlir;

namespace mebp {

bool Activity::isActive(train::BlockOp block, func::FuncOp function, unsigned argument) const {
  if (train::isTrainable(function, argument))
    return true;
  train::PortAttr port = train::getArgumentPort(function, argument);
  if (!port.isPassed())
    return false;
  if (port.isFlow())
    return blocks - 1 > lowest || block.getKind() == train::BlockKind::Head;
  return (port.getKind() == train::PortKind::Shared ? shared : remote).contains(port.getName());
}

llvm::SmallBitVector Activity::enter(train::BlockOp block, func::FuncOp function) {
  llvm::SmallBitVector arguments(function.getNumArguments());
  DenseSet<Value> active;
  for (BlockArgument argument : function.getArguments())
    if (isActive(block, function, argument.getArgNumber())) {
      arguments.set(argument.getArgNumber());
      active.insert(argument);
    }
  Block &body = function.getBody().front();
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); }))
      active.insert_range(op.getResults());
  for (OpOperand &output : body.getTerminator()->getOpOperands())
    if (train::PortAttr port = train::getResultPort(function, output.getOperandNumber());
        port.isPassed() && !port.isFlow() && active.contains(output.get()))
      (port.getKind() == train::PortKind::Shared ? shared : remote).insert(port.getName());
  return arguments;
}

} // namespace mebp
