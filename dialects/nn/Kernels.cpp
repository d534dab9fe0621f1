// SPDX-License-Identifier: Apache-2.0
#include "dialects/nn/Kernels.h"

#include "dialects/nn/NN.h"

using namespace mlir;
using namespace mebp::nn;
using mebp::format::KernelSignature;
using mebp::format::Slot;
using mebp::format::SlotType;

const KernelSignature &mebp::nn::getSignature(Operation *op) {
  StringRef name = op->getName().stripDialect();
  const KernelSignature *signature = mebp::format::findSignature({name.data(), name.size()});
  assert(signature && "an op with KernelOpInterface has a row in format/kernels.h");
  return *signature;
}

SmallVector<Value> mebp::nn::getSlotOperands(Operation *op) {
  auto sizes = op->getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes");
  if (!sizes)
    return op->getOperands();
  SmallVector<Value> operands;
  unsigned next = 0;
  for (int32_t size : sizes.asArrayRef())
    operands.push_back(size ? op->getOperand(next++) : Value());
  return operands;
}

/// The operand that `choose` picks of the signature's slots; null if none or absent.
static Value findOperand(Operation *op, llvm::function_ref<bool(const Slot &)> choose) {
  const KernelSignature &signature = getSignature(op);
  SmallVector<Value> operands = getSlotOperands(op);
  for (size_t i = 0; i < std::min(operands.size(), mebp::format::slotCount(signature.operands)); ++i)
    if (choose(signature.operands[i]))
      return operands[i];
  return {};
}

Value KernelOpInterface::getAccumulator(unsigned result) {
  return findOperand(*this, [&](const Slot &slot) { return slot.accumulates == static_cast<int>(result); });
}

/// The slot of the operand that `result` is added to, or noSlot.
static int findAccumulatorSlot(Operation *op, unsigned result) {
  const KernelSignature &signature = getSignature(op);
  for (size_t i = 0; i < mebp::format::slotCount(signature.operands); ++i)
    if (signature.operands[i].accumulates == static_cast<int>(result))
      return static_cast<int>(i);
  return mebp::format::noSlot;
}

bool KernelOpInterface::canAccumulate(unsigned result) {
  return findAccumulatorSlot(*this, result) != mebp::format::noSlot;
}

void KernelOpInterface::setAccumulator(unsigned result, Value accumulator) {
  setSlotOperand(*this, findAccumulatorSlot(*this, result), accumulator);
}

int mebp::nn::findSlot(Operation *op, std::string_view name) {
  return isa<KernelOpInterface>(op) ? mebp::format::findOperand(getSignature(op), name) : mebp::format::noSlot;
}

void mebp::nn::setSlotOperand(Operation *op, size_t slot, Value value) {
  SmallVector<Value> bySlot = getSlotOperands(op);
  bySlot.resize(std::max(bySlot.size(), slot + 1));
  bySlot[slot] = value;
  SmallVector<Value> operands;
  SmallVector<int32_t> sizes;
  for (Value operand : bySlot) {
    sizes.push_back(operand ? 1 : 0);
    if (operand)
      operands.push_back(operand);
  }
  op->setOperands(operands);
  if (op->hasTrait<OpTrait::AttrSizedOperandSegments>())
    op->setAttr("operandSegmentSizes", DenseI32ArrayAttr::get(op->getContext(), sizes));
}

Value KernelOpInterface::getReusable(unsigned result) {
  return findOperand(*this, [&](const Slot &slot) { return slot.reused == static_cast<int>(result); });
}

SmallVector<Value> KernelOpInterface::getExactValues() {
  const KernelSignature &signature = getSignature(*this);
  SmallVector<Value> exact;
  auto take = [&](ValueRange values, const Slot *slots, size_t count) {
    for (auto [i, value] : llvm::enumerate(values))
      if (value && i < count && slots[i].type == SlotType::Exact)
        exact.push_back(value);
  };
  take(getSlotOperands(*this), signature.operands, mebp::format::slotCount(signature.operands));
  take((*this)->getResults(), signature.results, mebp::format::slotCount(signature.results));
  return exact;
}

bool mebp::nn::isProduct(Operation *op) {
  using mebp::format::Cost;
  return isa<KernelOpInterface>(op) && llvm::is_contained({Cost::Product, Cost::ExpertProduct}, getSignature(op).cost);
}

//===- Shapes ----------------------------------------------------------------------------------------------------===//

namespace {

class ShapeVerifier {
public:
  explicit ShapeVerifier(Operation *op) : op(op), signature(getSignature(op)) {}

  LogicalResult verify() {
    if (signature.parts != mebp::format::Parts::None)
      return success(); // the op itself adds up its parts
    SmallVector<Value> operands = getSlotOperands(op);
    // What an activation has to fit is a weight: its sizes come first.
    for (bool weights : {true, false})
      for (auto [i, operand] : llvm::enumerate(operands)) {
        const Slot &slot = signature.operands[i];
        if (operand && (slot.type == SlotType::Weight && !slot.optional) == weights && failed(check(slot, operand)))
          return failure();
      }
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (failed(check(signature.results[i], result)))
        return failure();
    return success();
  }

private:
  LogicalResult check(const Slot &slot, Value value) {
    if (mebp::format::isIndex(slot.type))
      return success();
    auto type = cast<RankedTensorType>(value.getType());
    // The rows of tokens are known at run time.
    bool rowsAreTokens = slot.shape[0] == 'N' || slot.shape[0] == 'S', oneRow = slot.shape[0] == '1';
    int64_t needed = rowsAreTokens || oneRow ? 1 : 2;
    if (type.getRank() < needed)
      return op->emitOpError() << "'" << slot.name << "' needs at least " << needed << " dimensions, but is " << type;
    if (needed == 2 && failed(bind(slot, slot.shape[0], type.getShape().drop_back().back(), type)))
      return failure();
    return bind(slot, slot.shape[1], type.getShape().back(), type);
  }

  LogicalResult bind(const Slot &slot, char letter, int64_t size, Type type) {
    auto [entry, isNew] = sizes.try_emplace(letter, letter == '1' ? 1 : size);
    if (ShapedType::isDynamic(entry->second))
      entry->second = size;
    if (ShapedType::isDynamic(size) || size == entry->second)
      return success();
    return op->emitOpError() << "'" << slot.name << "' has size " << size << " where " << entry->second
                             << " is needed: " << type;
  }

  Operation *op;
  const KernelSignature &signature;
  llvm::SmallDenseMap<char, int64_t> sizes;
};

} // namespace

LogicalResult mebp::nn::verifyShapes(Operation *op) { return ShapeVerifier(op).verify(); }
