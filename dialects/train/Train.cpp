// SPDX-License-Identifier: Apache-2.0
#include "dialects/train/Train.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mebp;
using namespace mebp::train;

#include "dialects/train/TrainDialect.cpp.inc"
#include "dialects/train/TrainEnums.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/train/TrainOps.cpp.inc"

void TrainDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/train/TrainOps.cpp.inc"
      >();
}

//===- LoopOp ----------------------------------------------------------------------------------------------------===//

void LoopOp::build(OpBuilder &builder, OperationState &state, Domain domain, int64_t size, Value over,
                   ValueRange inits) {
  state.addAttribute("domain", builder.getI32IntegerAttr(static_cast<int32_t>(domain)));
  state.addAttribute("size", builder.getI64IntegerAttr(size));
  state.addOperands(over ? ValueRange(over) : ValueRange());
  state.addOperands(inits);
  state.addAttribute("operandSegmentSizes",
                     builder.getDenseI32ArrayAttr({over ? 1 : 0, static_cast<int32_t>(inits.size())}));
  state.addTypes(inits.getTypes());
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(state.addRegion());
  body->addArgument(builder.getIndexType(), state.location);
  for (Value init : inits)
    body->addArgument(init.getType(), init.getLoc());
}

YieldOp LoopOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

// train.loop sequence 64 [over %w : type] trip %t (%carried = %init, ...) : types { ... }
void LoopOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyDomain(getDomain()) << ' ' << getSize();
  if (getOver())
    printer << " over " << getOver() << " : " << getOver().getType();
  printer << " trip " << getTrip() << " (";
  llvm::interleaveComma(llvm::zip(getCarried(), getInits()), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ")";
  if (!getInits().empty())
    printer << " : " << getInits().getTypes();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"domain", "size", "operandSegmentSizes"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &state) {
  StringRef keyword;
  int64_t size = 0;
  auto location = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword) || parser.parseInteger(size))
    return failure();
  std::optional<Domain> domain = symbolizeDomain(keyword);
  if (!domain)
    return parser.emitError(location) << "unknown domain '" << keyword << "'";
  Builder &builder = parser.getBuilder();
  OpAsmParser::UnresolvedOperand over;
  Type overType;
  bool hasOver = succeeded(parser.parseOptionalKeyword("over"));
  if (hasOver && (parser.parseOperand(over) || parser.parseColonType(overType)))
    return failure();
  OpAsmParser::Argument trip;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  if (parser.parseKeyword("trip") || parser.parseArgument(trip) || parser.parseAssignmentList(arguments, inits))
    return failure();
  SmallVector<Type> types;
  if (!inits.empty() && parser.parseColonTypeList(types))
    return failure();
  if (types.size() != inits.size())
    return parser.emitError(location) << "has " << inits.size() << " carried values and " << types.size() << " types";
  trip.type = builder.getIndexType();
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  arguments.insert(arguments.begin(), trip);
  if ((hasOver && parser.resolveOperand(over, overType, state.operands)) ||
      parser.resolveOperands(inits, types, location, state.operands) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, builder, state.location);
  state.addTypes(types);
  state.addAttribute("domain", builder.getI32IntegerAttr(static_cast<int32_t>(*domain)));
  state.addAttribute("size", builder.getI64IntegerAttr(size));
  state.addAttribute("operandSegmentSizes",
                     builder.getDenseI32ArrayAttr({hasOver ? 1 : 0, static_cast<int32_t>(inits.size())}));
  return success();
}

LogicalResult LoopOp::verifyRegions() {
  if (getSize() <= 0)
    return emitOpError() << "has chunks of " << getSize() << " rows; at least 1 is needed";
  if ((getDomain() == Domain::WeightRows) != static_cast<bool>(getOver()))
    return emitOpError("needs 'over' with the domain weight_rows, and only there");
  if (getBody().front().getNumArguments() != getInits().size() + 1 || !getTrip().getType().isIndex())
    return emitOpError("has a body whose arguments are not the trip and the carried values");
  if (getResultTypes() != getInits().getTypes() || TypeRange(ValueRange(getCarried())) != getInits().getTypes())
    return emitOpError("has results or carried arguments of other types than its initial values");
  if (getYield().getValues().getTypes() != getInits().getTypes())
    return emitOpError("yields other types than it carries");
  return success();
}

namespace {
LogicalResult verifyTrip(Operation *op, Value trip) {
  auto loop = dyn_cast<LoopOp>(trip.getParentBlock()->getParentOp());
  if (loop && isa<BlockArgument>(trip) && trip == loop.getTrip())
    return success();
  return op->emitOpError("needs the trip of a train.loop around it");
}
} // namespace

LogicalResult SliceOp::verify() { return verifyTrip(*this, getTrip()); }
LogicalResult UpdateOp::verify() { return verifyTrip(*this, getTrip()); }

//===- BlockOp ---------------------------------------------------------------------------------------------------===//

FlatSymbolRefAttr BlockOp::getProgram(ProgramUse use) {
  switch (use) {
  case ProgramUse::Forward:
    return getForwardAttr();
  case ProgramUse::Backward:
    return getBackwardAttr();
  case ProgramUse::Objective:
    return getObjectiveAttr();
  case ProgramUse::Loss:
    return getLossAttr();
  case ProgramUse::Logits:
    return getLogitsAttr();
  }
  llvm_unreachable("every use has its attribute");
}

SmallVector<std::pair<ProgramUse, FlatSymbolRefAttr>> BlockOp::getPrograms() {
  SmallVector<std::pair<ProgramUse, FlatSymbolRefAttr>> programs;
  for (ProgramUse use : programUses)
    if (FlatSymbolRefAttr name = getProgram(use))
      programs.push_back({use, name});
  return programs;
}

func::FuncOp BlockOp::lookupFunction(ProgramUse use) {
  FlatSymbolRefAttr name = getProgram(use);
  auto function = name ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(*this, name) : func::FuncOp();
  if (!function)
    emitOpError() << "has no function '" << stringifyProgramUse(use) << "'";
  return function;
}

namespace {
/// Every parameter that the function names is one of the block's.
LogicalResult checkNumbers(BlockOp block, func::FuncOp function) {
  auto check = [&](std::optional<Role> role, unsigned parameter) -> LogicalResult {
    if (!role || !isNumbered(*role) || parameter < block.getParameters().size())
      return success();
    return block.emitOpError() << "has " << block.getParameters().size() << " parameters, but '"
                               << function.getSymName() << "' asks for number " << parameter;
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(getArgumentRole(function, i), getArgumentParameter(function, i))))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(getResultRole(function, i), getResultParameter(function, i))))
      return failure();
  return success();
}
} // namespace

LogicalResult BlockOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>())
    if (!symbols.lookupNearestSymbolFrom<nn::ParameterOp>(*this, name))
      return emitOpError() << "binds " << name << ", which is not an nn.parameter";
  for (auto [use, name] : getPrograms()) {
    Operation *program = symbols.lookupNearestSymbolFrom(*this, name);
    if (!program)
      return emitOpError() << "has '" << stringifyProgramUse(use) << "' " << name << ", which is not there";
    auto function = dyn_cast<func::FuncOp>(program);
    if (!function) // it has become a program
      continue;
    if (function.isExternal() || !isa<func::ReturnOp>(function.getBody().front().back()))
      return emitOpError() << "has '" << stringifyProgramUse(use) << "' " << name << ", which has no body";
    if (function.getNumArguments() == 0 || function.getNumResults() == 0)
      return emitOpError() << "has '" << stringifyProgramUse(use) << "' " << name
                           << ", which needs an argument and a result";
    if (failed(checkNumbers(*this, function)))
      return failure();
  }
  return success();
}

//===- Roles -----------------------------------------------------------------------------------------------------===//

namespace {
constexpr StringLiteral roleAttribute = "train.role";
constexpr StringLiteral parameterAttribute = "train.parameter";
constexpr StringLiteral trainableAttribute = "train.trainable";

std::optional<Role> readRole(Attribute attribute) {
  auto name = dyn_cast_or_null<StringAttr>(attribute);
  return name ? symbolizeRole(name.getValue()) : std::nullopt;
}
unsigned readNumber(Attribute attribute) {
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number ? number.getInt() : 0;
}
StringAttr makeRole(func::FuncOp function, Role role) {
  return StringAttr::get(function.getContext(), stringifyRole(role));
}
IntegerAttr makeNumber(func::FuncOp function, int64_t number) {
  return Builder(function.getContext()).getI64IntegerAttr(number);
}

/// What is known of an attribute by its name; `fits` says which roles belong there.
LogicalResult verifyAttribute(Operation *op, NamedAttribute attribute, bool (*fits)(Role)) {
  StringRef name = attribute.getName().strref();
  bool isKnown = true;
  if (name == roleAttribute) {
    std::optional<Role> role = readRole(attribute.getValue());
    isKnown = role && fits(*role);
  } else if (name == parameterAttribute) {
    auto number = dyn_cast<IntegerAttr>(attribute.getValue());
    isKnown = number && number.getType().isSignlessInteger(64) && number.getInt() >= 0;
  } else if (name == trainableAttribute) {
    isKnown = isa<UnitAttr>(attribute.getValue());
  }
  if (isKnown)
    return success();
  return op->emitOpError() << "has " << name << " = " << attribute.getValue() << ", which means nothing there";
}
} // namespace

LogicalResult TrainDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, isInput);
}
LogicalResult TrainDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, isOutput);
}

namespace mebp::train {
std::optional<Role> getArgumentRole(func::FuncOp function, unsigned index) {
  return readRole(function.getArgAttr(index, roleAttribute));
}
std::optional<Role> getResultRole(func::FuncOp function, unsigned index) {
  return readRole(function.getResultAttr(index, roleAttribute));
}
void setArgumentRole(func::FuncOp function, unsigned index, Role role, std::optional<int64_t> parameter) {
  function.setArgAttr(index, roleAttribute, makeRole(function, role));
  if (parameter)
    function.setArgAttr(index, parameterAttribute, makeNumber(function, *parameter));
}
void setResultRole(func::FuncOp function, unsigned index, Role role, std::optional<int64_t> parameter) {
  function.setResultAttr(index, roleAttribute, makeRole(function, role));
  if (parameter)
    function.setResultAttr(index, parameterAttribute, makeNumber(function, *parameter));
}
unsigned getArgumentParameter(func::FuncOp function, unsigned index) {
  return readNumber(function.getArgAttr(index, parameterAttribute));
}
unsigned getResultParameter(func::FuncOp function, unsigned index) {
  return readNumber(function.getResultAttr(index, parameterAttribute));
}
bool isTrainable(func::FuncOp function, unsigned argument) {
  return static_cast<bool>(function.getArgAttr(argument, trainableAttribute));
}
void setTrainable(func::FuncOp function, unsigned argument) {
  function.setArgAttr(argument, trainableAttribute, UnitAttr::get(function.getContext()));
}

bool isInput(Role role) {
  switch (role) {
  case Role::Activation:
  case Role::Cotangent:
  case Role::TokenIds:
  case Role::Labels:
  case Role::ObjectiveScale:
  case Role::Parameter:
    return true;
  case Role::Gradient:
  case Role::Loss:
  case Role::Logits:
    return false;
  }
  llvm_unreachable("every role goes in, comes out, or both");
}
bool isOutput(Role role) { return !isInput(role) || role == Role::Activation || role == Role::Cotangent; }
} // namespace mebp::train
