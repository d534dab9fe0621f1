// SPDX-License-Identifier: Apache-2.0
//
// What layers take beside what flows from one to the next.
//
// Terms: a value is of the ids if it is made of them and of parameters alone, each row by itself. It is late if several
// layers read it: if an op that mixes rows is between those that do.
// 1. Find the values of the ids, and of these the late ones.
// 2. Before each op that reads a late value, compute it again from the ids. Of a split, only the part that is read: an
//    op that treats its columns alike, or group by group, takes the part of its operand. A linear layer gives the rows
//    of its weight that make the part, as that expert's of a mixture which every token is sent to. A table gives a part
//    of its rows. Which part it is, is a parameter, so that layers share their functions.
// 3. Erase what nobody reads any more.
// Keys and values that several layers share are not computed again: that would take the layer that makes them.
#include "compiler/partition/InputsOfLayers.h"

#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Embeddings.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Norms.h"
#include "dialects/nn/Parameters.h"
#include "format/tensor_names.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace mebp {

bool isShared(Value value) {
  SmallPtrSet<Operation *, 4> readers;
  for (OpOperand &use : value.getUses()) {
    auto sequence = dyn_cast<nn::SequenceOpInterface>(use.getOwner());
    if (!sequence || sequence.getSequenceUses().operands[use.getOperandNumber()] != nn::SequenceUse::Before)
      return false;
    readers.insert(use.getOwner());
  }
  return readers.size() > 1;
}

namespace {

bool isParameter(Value value) { return value.getDefiningOp<nn::ReadParameterOp>() != nullptr; }

/// Whether the kernel computes each column by itself: all that it takes and gives has the same columns.
bool isByColumns(Operation *op) {
  if (!isa<nn::KernelOpInterface>(op) || nn::getSignature(op).parts != format::Parts::None)
    return false;
  const format::KernelSignature &signature = nn::getSignature(op);
  auto isSame = [](const format::Slot &slot) { return std::string_view(slot.shape) == "NF"; };
  return op->getNumResults() == 1 && signature.rule == format::Rule::None &&
         std::all_of(signature.operands, signature.operands + format::slotCount(signature.operands), isSame) &&
         std::all_of(signature.results, signature.results + format::slotCount(signature.results), isSame);
}

class Inputs {
public:
  explicit Inputs(func::FuncOp function) : function(function), builder(function.getContext()) {}

  DenseSet<Operation *> run() {
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (!isa<nn::ReadParameterOp>(op) && !nn::mixesRows(&op) &&
          llvm::all_of(op.getOperands(), [&](Value operand) { return isOfIds(operand) || isParameter(operand); }))
        ofIds.insert(&op);
    }
    SmallVector<OpOperand *> late = findLate();
    for (OpOperand *use : late) {
      builder.setInsertionPoint(use->getOwner());
      again.clear();
      names.clear();
      use->set(compute(use->get()));
    }
    if (!late.empty())
      eraseUnread();
    return made;
  }

private:
  void eraseUnread() {
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op)) {
        made.erase(op);
        op->erase();
      }
  }

  bool isOfIds(Value value) { return isa<BlockArgument>(value) || ofIds.contains(value.getDefiningOp()); }

  /// Where layers read late values. Of an op with several results all are late where one is.
  SmallVector<OpOperand *> findLate() {
    struct Reads {
      SmallVector<OpOperand *> operands;
      size_t first = 0, last = 0; // how many ops that mix rows are before them
    };
    llvm::MapVector<Operation *, Reads> reads;
    size_t mixing = 0;
    for (Operation &op : function.getBody().front().without_terminator()) {
      mixing += nn::mixesRows(&op);
      for (OpOperand &operand : op.getOpOperands()) {
        if (!isRead(operand))
          continue;
        auto [entry, isNew] = reads.try_emplace(operand.get().getDefiningOp(), Reads{{}, mixing, mixing});
        entry->second.operands.push_back(&operand);
        entry->second.last = mixing;
      }
    }
    SmallVector<OpOperand *> late;
    for (auto &[op, found] : reads)
      if (found.first != found.last)
        llvm::append_range(late, found.operands);
    return late;
  }

  /// By an op that is not of the ids itself, of an op that is.
  bool isRead(OpOperand &operand) {
    Operation *made = operand.get().getDefiningOp();
    return made && ofIds.contains(made) && !ofIds.contains(operand.getOwner()) && !isShared(operand.get());
  }

  /// The value, computed from the ids before the op that reads it.
  Value compute(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || isParameter(value))
      return value;
    if (Value known = again.lookup(value))
      return known;
    auto split = dyn_cast<nn::SplitOp>(op);
    if (split && split.getGroups().value_or(1) == 1 && llvm::all_equal(split->getResultTypes()))
      return again[value] =
                 computePart(split->getOperand(0), cast<OpResult>(value).getResultNumber(), split->getNumResults());
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, compute(operand));
    Operation *copy = builder.clone(*op, mapping);
    made.insert(copy);
    for (auto [result, other] : llvm::zip(op->getResults(), copy->getResults()))
      again[result] = other;
    return again.lookup(value);
  }

  /// One of so many equal parts of its columns.
  Value computePart(Value value, unsigned part, unsigned parts) {
    Operation *op = value.getDefiningOp();
    const int64_t width = nn::features(value) / parts;
    Type type = nn::getTokensType(width, getElementTypeOrSelf(value));
    if (auto linear = dyn_cast_or_null<nn::LinearOp>(op); linear && !linear.getAddend() && !linear.getLow())
      return take(nn::ExpertLinearOp::create(builder, op->getLoc(), type, compute(linear.getX()), linear.getWeight(),
                                             nameOfPart(part), Value(), linear.getBias(), linear.getAlphaAttr()));
    if (auto table = dyn_cast_or_null<nn::EmbeddingOp>(op); table && !table.getPart())
      return take(nn::EmbeddingOp::create(builder, op->getLoc(), type, compute(table.getIds()), table.getWeight(),
                                          nameOfPart(part)));
    auto norm = dyn_cast_or_null<nn::RmsNormOp>(op);
    if ((norm && width % nn::features(norm.getWeight()) == 0) || (op && isByColumns(op))) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        if (nn::isTokens(operand.getType()))
          mapping.map(operand, computePart(operand, part, parts));
      Operation *copy = builder.clone(*op, mapping);
      copy->getResult(0).setType(type);
      made.insert(copy);
      return copy->getResult(0);
    }
    auto split = nn::SplitOp::create(builder, value.getLoc(), SmallVector<Type>(parts, type), compute(value));
    made.insert(split);
    return split->getResult(part);
  }

  template <typename Op> Value take(Op op) {
    made.insert(op);
    return op.getResult();
  }

  /// The part's number, of every token.
  Value nameOfPart(unsigned part) {
    if (Value known = names.lookup(part))
      return known;
    const std::string name = std::string(format::partPrefix) + std::to_string(part);
    auto type = RankedTensorType::get({1, 1}, builder.getF32Type());
    Location location = function.getLoc();
    auto module = function->getParentOfType<ModuleOp>();
    if (!module.lookupSymbol(name)) {
      OpBuilder outside(function);
      auto parameter = nn::ParameterOp::create(outside, location, name, type);
      parameter.setInlineDataAttr(DenseElementsAttr::get(type, static_cast<float>(part)));
    }
    Value number = nn::ReadParameterOp::create(builder, location, type, name);
    return names[part] =
               take(nn::RepeatRowOp::create(builder, location, nn::getTokensType(1, type.getElementType()), number));
  }

  func::FuncOp function;
  OpBuilder builder;
  DenseSet<Operation *> ofIds, made;
  DenseMap<Value, Value> again;    // for the op that is being looked at
  DenseMap<unsigned, Value> names; // likewise, of parts
};

} // namespace

DenseSet<Operation *> computeInputsAgain(func::FuncOp function) { return Inputs(function).run(); }

} // namespace mebp
