// SPDX-License-Identifier: Apache-2.0
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace mebp::nn;
using mebp::format::KernelSignature;
using mebp::format::Slot;

namespace {

/// A sum over rows has to go on from chunk to chunk: a kernel that makes one takes what it is added to.
constexpr bool everySumAccumulates() {
  auto hasRows = [](const Slot &slot) { return slot.shape[0] == 'N' || slot.shape[0] == 'S' || slot.shape[0] == 'Z'; };
  for (const KernelSignature &signature : mebp::format::kernelSignatures) {
    bool readsRows = false;
    for (size_t i = 0; i < mebp::format::slotCount(signature.operands); ++i)
      readsRows |= hasRows(signature.operands[i]);
    for (size_t result = 0; result < mebp::format::slotCount(signature.results); ++result) {
      bool accumulates = false;
      for (size_t i = 0; i < mebp::format::slotCount(signature.operands); ++i)
        accumulates |= signature.operands[i].accumulates == static_cast<int>(result);
      if (readsRows && !hasRows(signature.results[result]) && !accumulates)
        return false;
    }
  }
  return true;
}
static_assert(everySumAccumulates(), "mebp-chunk-sequence would lose the sums of earlier chunks");

/// What the table says of each operand and result; null where it says nothing.
struct Slots {
  explicit Slots(Operation *op) : operands(op->getNumOperands()), results(op->getNumResults()) {
    if (!isa<KernelOpInterface>(op))
      return;
    const KernelSignature &signature = getSignature(op);
    isCausal = signature.causal;
    size_t next = 0;
    for (auto [index, operand] : llvm::enumerate(getSlotOperands(op)))
      if (operand)
        operands[next++] = index < mebp::format::slotCount(signature.operands) ? &signature.operands[index] : nullptr;
    for (size_t i = 0; i < std::min(results.size(), mebp::format::slotCount(signature.results)); ++i)
      results[i] = &signature.results[i];
    for (size_t i = 0; i < mebp::format::slotCount(signature.operands); ++i)
      if (const Slot &slot = signature.operands[i]; slot.carry != mebp::format::Carry::No)
        carriers[slot.accumulates] = &slot;
  }

  /// Of what an operand or result carries; nothing where it does not.
  static std::optional<SequenceUse> getCarriedUse(const Slot *slot) {
    if (!slot || slot->carry == mebp::format::Carry::No)
      return std::nullopt;
    return slot->carry == mebp::format::Carry::Forwards ? SequenceUse::Carried : SequenceUse::CarriedBack;
  }

  SequenceUse getUse(const Slot *slot) const {
    if (!slot || slot->shape[0] != 'S')
      return SequenceUse::Rows;
    return isCausal ? SequenceUse::Before : SequenceUse::Everything;
  }

  SmallVector<const Slot *> operands, results;
  llvm::SmallDenseMap<int, const Slot *> carriers; // by the result, also of an operand that is absent
  bool isCausal = false;
};

} // namespace

SequenceUses mebp::nn::deriveSequenceUses(Operation *op) {
  const Slots slots(op);
  SequenceUses uses;
  for (auto [operand, slot] : llvm::zip_equal(op->getOperands(), slots.operands)) {
    SequenceUse use = isTokens(operand.getType()) ? slots.getUse(slot) : SequenceUse::None;
    if (std::optional<SequenceUse> carried = Slots::getCarriedUse(slot)) {
      uses.operands.push_back(*carried);
      continue;
    }
    bool isAddedTo = slot && slot->accumulates != mebp::format::noSlot && use != SequenceUse::Rows;
    uses.operands.push_back(isAddedTo ? SequenceUse::Sum : use);
  }
  bool hasRows = llvm::any_of(op->getOperandTypes(), isTokens);
  for (auto [result, slot] : llvm::zip_equal(op->getResults(), slots.results)) {
    SequenceUse withoutRows = hasRows ? SequenceUse::Sum : SequenceUse::None;
    if (auto carried = Slots::getCarriedUse(slots.carriers.lookup(result.getResultNumber()))) {
      uses.results.push_back(*carried);
      continue;
    }
    const bool hasOwn = isTokens(result.getType()) || (slot && slot->shape[0] == 'Z'); // or of so many of its rows
    uses.results.push_back(hasOwn ? slots.getUse(slot) : withoutRows);
  }
  return uses;
}

SmallVector<OpResult> mebp::nn::getSums(Operation *op) {
  SmallVector<OpResult> sums;
  auto sequence = dyn_cast<SequenceOpInterface>(op);
  if (!sequence)
    return sums;
  for (auto [result, use] : llvm::zip_equal(op->getResults(), sequence.getSequenceUses().results))
    if (use == SequenceUse::Sum)
      sums.push_back(result);
  return sums;
}

int64_t mebp::nn::getWindow(Operation *op) {
  auto window = op->getAttrOfType<IntegerAttr>("window");
  return window ? window.getInt() : 0;
}

bool mebp::nn::mixesRows(Operation *op) {
  auto sequence = dyn_cast<SequenceOpInterface>(op);
  if (!sequence)
    return false;
  SequenceUses uses = sequence.getSequenceUses();
  return llvm::any_of(llvm::concat<SequenceUse>(uses.operands, uses.results), [](SequenceUse use) {
    return use == SequenceUse::Before || use == SequenceUse::Everything || isCarried(use);
  });
}
