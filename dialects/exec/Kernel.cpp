// SPDX-License-Identifier: Apache-2.0
//
// exec.kernel: its text, and what format/kernels.h asks of its operands and results.
#include "dialects/exec/Kernel.h"
#include "format/kernels.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::format::KernelSignature;
using mebp::format::Parts;
using mebp::format::Slot;
using mebp::format::SlotType;

namespace {

const KernelSignature *lookUp(StringRef kernel) { return mebp::format::findSignature({kernel.data(), kernel.size()}); }

/// One side of a value's shape: its largest size, and how much of it is live.
struct Axis {
  int64_t size = 0;
  Extent extent = Extent::Whole;

  bool operator!=(const Axis &other) const { return size != other.size || extent != other.extent; }
};

Axis getRows(Value value) { return {cast<RankedTensorType>(value.getType()).getDimSize(0), getExtents(value).rows}; }
Axis getColumns(Value value) {
  return {cast<RankedTensorType>(value.getType()).getDimSize(1), getExtents(value).columns};
}

class KernelVerifier {
public:
  KernelVerifier(KernelOp kernel, const KernelSignature &signature) : kernel(kernel), signature(signature) {}

  LogicalResult verify() {
    if (signature.parts != Parts::None)
      return verifyParts();
    if (failed(verifySlots()))
      return failure();
    for (auto [i, operand] : llvm::enumerate(kernel.getSlotOperands()))
      if (operand && failed(verifySlot(signature.operands[i], operand)))
        return failure();
    for (auto [i, result] : llvm::enumerate(kernel.getOutputs()))
      if (failed(verifySlot(signature.results[i], result)))
        return failure();
    if (signature.tokenRows && letters['N'].extent != Extent::Tokens && letters['N'].extent != Extent::Chunk)
      return kernel.emitOpError("needs rows of tokens, whose positions it asks for");
    return success();
  }

private:
  LogicalResult verifySlots() {
    size_t operands = mebp::format::slotCount(signature.operands), results = mebp::format::slotCount(signature.results);
    ArrayRef<int32_t> slots = kernel.getSlots();
    if (slots.size() != kernel.getInputs().size() || !llvm::is_sorted(slots) ||
        std::adjacent_find(slots.begin(), slots.end()) != slots.end() ||
        (!slots.empty() && (slots.front() < 0 || slots.back() >= static_cast<int32_t>(operands))))
      return kernel.emitOpError("needs a slot for each operand, in the order that the kernel has them");
    for (size_t i = 0; i < operands; ++i)
      if (!signature.operands[i].optional && !llvm::is_contained(slots, static_cast<int32_t>(i)))
        return kernel.emitOpError() << "has no operand '" << signature.operands[i].name << "'";
    size_t given = kernel.getOutputs().size();
    if (given > results || (given < results && !signature.results[given].optional))
      return kernel.emitOpError() << "has " << given << " results; the kernel gives " << results;
    return success();
  }

  LogicalResult verifySlot(const Slot &slot, Value value) {
    Type element = getElementTypeOrSelf(value);
    bool fits = mebp::format::isIndex(slot.type)
                    ? element.isInteger(32)
                    : element.isF32() || (slot.type != SlotType::Exact && element.isBF16());
    if (!fits)
      return kernel.emitOpError() << "'" << slot.name << "' cannot be of " << element;
    if (failed(bind(slot, slot.shape[0], getRows(value))))
      return failure();
    return bind(slot, slot.shape[1], getColumns(value));
  }

  /// A letter stands for one size everywhere.
  LogicalResult bind(const Slot &slot, char letter, Axis axis) {
    auto [entry, isNew] = letters.try_emplace(letter, letter == '1' ? Axis{1} : axis);
    if (axis != entry->second)
      return kernel.emitOpError() << "'" << slot.name << "' has size " << axis.size << " ("
                                  << stringifyExtent(axis.extent) << ") where " << entry->second.size << " ("
                                  << stringifyExtent(entry->second.extent) << ") is needed";
    if (letter == 'S' && axis.extent != (isOfState() ? Extent::Whole : Extent::Tokens))
      return kernel.emitOpError() << "'" << slot.name << "' has to be of all "
                                  << (isOfState() ? "that a state keeps" : "tokens");
    return success();
  }

  /// Whether what is before a row lies in a state.
  bool isOfState() {
    auto capacity = kernel.getKernelAttributes().getAs<IntegerAttr>("capacity");
    return signature.ofState && capacity && capacity.getInt() > 0;
  }

  LogicalResult verifyParts() {
    bool splits = signature.parts == Parts::Results;
    ValueRange wholes = splits ? ValueRange(kernel.getInputs()) : ValueRange(kernel.getOutputs());
    ValueRange parts = splits ? ValueRange(kernel.getOutputs()) : ValueRange(kernel.getInputs());
    if (wholes.size() != 1 || parts.empty() || !kernel.getSlots().empty())
      return kernel.emitOpError("needs one whole and its parts");
    int64_t columns = 0;
    for (Value part : parts) {
      if (getRows(part) != getRows(wholes[0]) || getColumns(part).extent != Extent::Whole)
        return kernel.emitOpError("has a part that does not fit the whole");
      columns += getColumns(part).size;
    }
    if (getColumns(wholes[0]) != Axis{columns})
      return kernel.emitOpError("has parts that do not make up the whole");
    return success();
  }

  KernelOp kernel;
  const KernelSignature &signature;
  llvm::SmallDenseMap<char, Axis> letters;
};

} // namespace

LogicalResult KernelOp::verify() {
  const KernelSignature *signature = lookUp(getKernel());
  if (!signature)
    return emitOpError() << "calls \"" << getKernel() << "\", which is no kernel (format/kernels.h)";
  if (getPlaces() && getPlaces()->size() != getOutputs().size())
    return emitOpError() << "has " << getPlaces()->size() << " places for " << getOutputs().size() << " results";
  for (Value value : llvm::concat<Value>(getInputs(), getOutputs()))
    if (auto type = cast<RankedTensorType>(value.getType()); type.getRank() != 2 || !type.hasStaticShape())
      return emitOpError() << "has a value that is not a matrix of a known largest size: " << type;
  return KernelVerifier(*this, *signature).verify();
}

const KernelSignature &KernelOp::getSignature() { return *lookUp(getKernel()); }

SmallVector<Value> KernelOp::getSlotOperands() {
  const KernelSignature &signature = getSignature();
  if (signature.parts != Parts::None)
    return getInputs();
  SmallVector<Value> operands(mebp::format::slotCount(signature.operands));
  for (auto [slot, input] : llvm::zip(getSlots(), getInputs()))
    operands[slot] = input;
  return operands;
}

OpOperand *KernelOp::getAccumulator(unsigned result) {
  for (auto [slot, operand] : llvm::zip(getSlots(), getInputsMutable()))
    if (getSignature().operands[slot].accumulates == static_cast<int>(result))
      return &operand;
  return nullptr;
}

OpOperand *KernelOp::getReusable(unsigned result) {
  for (auto [slot, operand] : llvm::zip(getSlots(), getInputsMutable()))
    if (getSignature().operands[slot].reused == static_cast<int>(result) &&
        operand.get().getType() == getOutputs()[result].getType() &&
        llvm::count(llvm::map_range(getInputs(), getRoot), operand.get()) == 1)
      return &operand;
  return nullptr;
}

void mebp::exec::printCall(OpAsmPrinter &printer, KernelOp op, StringAttr kernel, OperandRange inputs,
                           DenseI32ArrayAttr slots) {
  const KernelSignature *signature = lookUp(kernel.getValue());
  printer << kernel << '(';
  llvm::interleaveComma(llvm::enumerate(inputs), printer, [&](auto input) {
    if (signature && signature->parts == Parts::None)
      printer << signature->operands[slots[input.index()]].name << " = ";
    printer << input.value();
  });
  printer << ')';
}

ParseResult mebp::exec::parseCall(OpAsmParser &parser, StringAttr &kernel,
                                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &inputs, DenseI32ArrayAttr &slots) {
  auto location = parser.getCurrentLocation();
  if (parser.parseAttribute(kernel))
    return failure();
  const KernelSignature *signature = lookUp(kernel.getValue());
  if (!signature)
    return parser.emitError(location) << kernel << " is no kernel (format/kernels.h)";
  SmallVector<int32_t> numbers;
  auto parseOperand = [&]() -> ParseResult {
    auto place = parser.getCurrentLocation();
    StringRef name;
    if (signature->parts == Parts::None) {
      if (parser.parseKeyword(&name) || parser.parseEqual())
        return failure();
      numbers.push_back(mebp::format::findOperand(*signature, {name.data(), name.size()}));
      if (numbers.back() == mebp::format::noSlot)
        return parser.emitError(place) << kernel << " has no operand '" << name << "'";
    }
    return parser.parseOperand(inputs.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOperand))
    return failure();
  slots = parser.getBuilder().getDenseI32ArrayAttr(numbers);
  return success();
}
