// SPDX-License-Identifier: Apache-2.0
//
// Terms: an op of the backward is one of recomputation where the forward has the same op, attributes and operands
// alike. All others make gradients: what these read of the former is needed.
// 1. Arguments of one port are the same value, and so are results of same ops of same values.
// 2. A needed value is kept, or its op runs again; then its operands are needed, too (Checkmate, section 4, with one
//    stage). So each value has a node, "needed", and each op one, "runs again", on the source's side where that is so:
//      source to what gradients read, and an op to its operands: never cut
//      a value to its op: the price of its bytes, for it is kept where it is needed and its op does not run
//      an op to the sink: its seconds
#include "compiler/keep/Recomputation.h"

#include "compiler/keep/MinimumCut.h"
#include "dialects/nn/Arithmetic.h"

#include <cmath>

using namespace mlir;

namespace mebp {

Recomputation::Recomputation(func::FuncOp forward, func::FuncOp backward, bool narrow) : narrow(narrow) {
  match(forward, backward);
  for (Operation &op : backward.getBody().front())
    if (!llvm::is_contained(ops, &op))
      for (Value operand : op.getOperands())
        if (matched.contains(operand) && operand.getDefiningOp())
          needed.insert(operand);
}

void Recomputation::match(func::FuncOp forward, func::FuncOp backward) {
  for (BlockArgument argument : backward.getArguments())
    for (BlockArgument other : forward.getArguments())
      if (train::getArgumentPort(backward, argument.getArgNumber()) ==
          train::getArgumentPort(forward, other.getArgNumber()))
        matched[argument] = other;
  auto getAttributes = [](Operation *op) {
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase(secondsAttribute);
    return attributes.getDictionary(op->getContext());
  };
  auto isSame = [&](Operation &op, Operation &other) {
    return op.getName() == other.getName() && op.getResultTypes() == other.getResultTypes() &&
           op.getNumOperands() == other.getNumOperands() && getAttributes(&op) == getAttributes(&other) &&
           llvm::all_of(llvm::zip(op.getOperands(), other.getOperands()), [&](auto operands) {
             auto [operand, otherOperand] = operands;
             return matched.lookup(operand) == otherOperand;
           });
  };
  for (Operation &op : backward.getBody().front().without_terminator())
    for (Operation &other : forward.getBody().front().without_terminator())
      if (isSame(op, other)) {
        ops.push_back(&op);
        for (auto [result, otherResult] : llvm::zip(op.getResults(), other.getResults()))
          matched[result] = otherResult;
        break;
      }
}

double Recomputation::getRowBytes(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  auto op = value.getDefiningOp<nn::KernelOpInterface>();
  bool isExact = op && llvm::is_contained(op.getExactValues(), value);
  double size = narrow && !isExact && type.getElementType().isF32() ? 2 : type.getElementTypeBitWidth() / 8;
  return size * static_cast<double>(type.getShape().back());
}

Recomputation::Kept Recomputation::keep(double price) const {
  MinimumCut cut;
  DenseMap<Operation *, size_t> again;
  DenseMap<Value, size_t> isNeeded;
  auto getSeconds = [](Operation *op) {
    auto seconds = op->getAttrOfType<FloatAttr>(secondsAttribute);
    return seconds ? seconds.getValueAsDouble() : 0.0;
  };
  for (Operation *op : ops) {
    again[op] = cut.addNode();
    cut.addEdge(again[op], MinimumCut::sink, getSeconds(op));
    for (Value result : op->getResults()) {
      // What dropout reads is there in any case, and costs less memory: several have it in common.
      bool mayBeKept = nn::isTokens(result.getType()) && std::isfinite(price) && !isa<nn::DropoutOp>(op);
      isNeeded[result] = cut.addNode();
      cut.addEdge(isNeeded[result], again[op], mayBeKept ? price * getRowBytes(result) : MinimumCut::never);
      if (needed.contains(result))
        cut.addEdge(MinimumCut::source, isNeeded[result], MinimumCut::never);
    }
    for (Value operand : op->getOperands())
      if (auto value = isNeeded.find(operand); value != isNeeded.end())
        cut.addEdge(again[op], value->second, MinimumCut::never);
  }
  const std::vector<bool> side = cut.solve();
  Kept kept;
  for (Operation *op : ops) {
    if (side[again[op]]) {
      kept.seconds += getSeconds(op);
      continue;
    }
    for (Value result : op->getResults())
      if (side[isNeeded[result]]) {
        kept.values.push_back({matched.lookup(result), result});
        kept.rowBytes += getRowBytes(result);
      }
  }
  llvm::sort(kept.values, [](const Pair &left, const Pair &right) {
    Operation *first = left.forward.getDefiningOp(), *second = right.forward.getDefiningOp();
    if (first == second)
      return cast<OpResult>(left.forward).getResultNumber() < cast<OpResult>(right.forward).getResultNumber();
    return first->isBeforeInBlock(second);
  });
  return kept;
}

} // namespace mebp
