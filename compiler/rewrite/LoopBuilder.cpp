// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/LoopBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace mebp {

void LoopBuilder::carry(Value key, Value init) {
  keys.push_back(key);
  inits.push_back(init);
}

void LoopBuilder::carryRows(Value like) { carry(like, train::EmptyOp::create(builder, location, like.getType())); }

void LoopBuilder::begin() {
  loop = train::LoopOp::create(builder, location, domain, size, over, inits);
  builder.setInsertionPointToEnd(&loop.getBody().front());
  for (auto [key, argument] : llvm::zip(keys, loop.getCarried()))
    current[key] = argument;
}

Value LoopBuilder::lookup(Value original) {
  if (Value known = mapping.lookup(original))
    return known;
  if (!nn::isTokens(original.getType()))
    return original;
  Value slice = train::SliceOp::create(builder, original.getLoc(), original.getType(), original, getTrip());
  return mapping[original] = slice;
}

Operation *LoopBuilder::clone(Operation *op) {
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, lookup(operand));
  Operation *copy = builder.clone(*op, operands);
  for (auto [original, result] : llvm::zip(op->getResults(), copy->getResults()))
    map(original, result);
  return copy;
}

void LoopBuilder::addSums(Operation *op, Operation *copy) {
  for (OpResult sum : nn::getSums(op)) {
    unsigned number = sum.getResultNumber();
    cast<nn::KernelOpInterface>(copy).setAccumulator(number, getCarried(sum));
    setCarried(sum, copy->getResult(number));
  }
}

void LoopBuilder::updateRows(Value key, Value rows) {
  setCarried(key, train::UpdateOp::create(builder, rows.getLoc(), getCarried(key), rows, getTrip()));
}

void LoopBuilder::carryTokenResults(ValueRange values) {
  for (Value value : values)
    if (nn::isTokens(value.getType()))
      carryRows(value);
}

void LoopBuilder::updateTokenResults(ValueRange values) {
  for (Value value : values)
    if (nn::isTokens(value.getType()))
      updateRows(value, lookup(value));
}

void LoopBuilder::end() {
  SmallVector<Value> yielded;
  for (Value key : keys)
    yielded.push_back(current.lookup(key));
  train::YieldOp::create(builder, location, yielded);
  builder.setInsertionPointAfter(loop);
  for (auto [key, result] : llvm::zip(keys, loop.getResults()))
    results[key] = result;
}

} // namespace mebp
