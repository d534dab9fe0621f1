// SPDX-License-Identifier: Apache-2.0
#include "dialects/train/Train.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mebp;
using namespace mebp::train;

#include "dialects/nn/Parameters.h"
#include "dialects/train/TrainDialect.cpp.inc"
#include "dialects/train/TrainEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/train/TrainAttributes.cpp.inc"

namespace {

// ("up.weight" = @model.layers.0.up.weight, ...)
ParseResult parseParameters(OpAsmParser &parser, ArrayAttr &names, ArrayAttr &parameters) {
  SmallVector<Attribute> left, right;
  auto parseOne = [&]() -> ParseResult {
    StringAttr name;
    FlatSymbolRefAttr symbol;
    if (parser.parseAttribute(name) || parser.parseEqual() || parser.parseAttribute(symbol))
      return failure();
    left.push_back(name);
    right.push_back(symbol);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(left);
  parameters = parser.getBuilder().getArrayAttr(right);
  return success();
}

void printParameters(OpAsmPrinter &printer, Operation *, ArrayAttr names, ArrayAttr parameters) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(names, parameters), printer,
                        [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ')';
}

} // namespace

#define GET_OP_CLASSES
#include "dialects/train/TrainOps.cpp.inc"

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/train/TrainAttributes.cpp.inc"
      >();
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
  printer << " trip ";
  printer.printRegionArgument(cast<BlockArgument>(getTrip()), {}, /*omitType=*/true);
  printer << " (";
  llvm::interleaveComma(llvm::zip(getCarried(), getInits()), printer, [&](auto pair) {
    printer.printRegionArgument(std::get<0>(pair), {}, /*omitType=*/true);
    printer << " = " << std::get<1>(pair);
  });
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
/// Tokens have no number of rows, so a part of them is of the same type; a part of anything else is shorter, in rows
/// or, where it is a vector, in elements.
bool isPart(RankedTensorType part, RankedTensorType whole) {
  if (nn::isTokens(part) || nn::isTokens(whole))
    return part == whole;
  if (part.getElementType() != whole.getElementType() || part.getRank() != whole.getRank())
    return false;
  unsigned shorter = 0;
  for (auto [size, most] : llvm::zip(part.getShape(), whole.getShape())) {
    if (size > most)
      return false;
    shorter += size != most;
  }
  return shorter <= 1;
}

LogicalResult verifyPart(Operation *op, Value trip, Value whole, Value part) {
  auto loop = dyn_cast<LoopOp>(trip.getParentBlock()->getParentOp());
  if (!loop || !isa<BlockArgument>(trip) || trip != loop.getTrip())
    return op->emitOpError("needs the trip of a train.loop around it");
  if (nn::isTokens(whole.getType()) && loop.getDomain() == Domain::WeightRows)
    return op->emitOpError() << "takes rows of tokens, " << whole.getType() << ", in a loop over weight_rows";
  if (!isPart(cast<RankedTensorType>(part.getType()), cast<RankedTensorType>(whole.getType())))
    return op->emitOpError() << "has " << part.getType() << " for rows of " << whole.getType();
  return success();
}
} // namespace

LogicalResult SliceOp::verify() { return verifyPart(*this, getTrip(), getSource(), getResult()); }
LogicalResult UpdateOp::verify() { return verifyPart(*this, getTrip(), getDestination(), getSource()); }

//===- BlockOp ---------------------------------------------------------------------------------------------------===//

FlatSymbolRefAttr BlockOp::getProgram(StringRef name) { return getPrograms().getAs<FlatSymbolRefAttr>(name); }

FlatSymbolRefAttr BlockOp::getParameter(StringRef name) {
  for (auto [known, symbol] : llvm::zip(getParameterNames(), getParameters()))
    if (cast<StringAttr>(known).getValue() == name)
      return cast<FlatSymbolRefAttr>(symbol);
  return {};
}

void BlockOp::addParameter(StringRef name, StringRef symbol) {
  Builder builder(getContext());
  auto names = llvm::to_vector(getParameterNames()), parameters = llvm::to_vector(getParameters());
  names.push_back(builder.getStringAttr(name));
  parameters.push_back(FlatSymbolRefAttr::get(getContext(), symbol));
  setParameterNamesAttr(builder.getArrayAttr(names));
  setParametersAttr(builder.getArrayAttr(parameters));
}

void BlockOp::setProgram(StringRef name, StringRef symbol) {
  NamedAttrList programs(getPrograms());
  programs.set(name, FlatSymbolRefAttr::get(getContext(), symbol));
  setProgramsAttr(programs.getDictionary(getContext()));
}

void BlockOp::removeProgram(StringRef name) {
  NamedAttrList programs(getPrograms());
  programs.erase(name);
  setProgramsAttr(programs.getDictionary(getContext()));
}

func::FuncOp BlockOp::lookupFunction(StringRef name) {
  FlatSymbolRefAttr symbol = getProgram(name);
  auto function = symbol ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(*this, symbol) : func::FuncOp();
  if (!function)
    emitOpError() << "has no function '" << name << "'";
  return function;
}

LogicalResult BlockOp::verify() {
  if (getParameterNames().size() != getParameters().size())
    return emitOpError() << "has " << getParameterNames().size() << " names for " << getParameters().size()
                         << " parameters";
  llvm::SmallDenseSet<Attribute> names;
  for (Attribute name : getParameterNames())
    if (!names.insert(name).second)
      return emitOpError() << "binds " << name << " twice";
  for (NamedAttribute program : getPrograms())
    if (!isa<FlatSymbolRefAttr>(program.getValue()))
      return emitOpError() << "has the program " << program.getName() << " = " << program.getValue()
                           << ", which is no symbol";
  return success();
}

namespace {
/// Every parameter that the function names is one of the block's.
LogicalResult checkParameters(BlockOp block, func::FuncOp function) {
  auto check = [&](PortAttr port) -> LogicalResult {
    if (!port || (port.getKind() != PortKind::Parameter && port.getKind() != PortKind::Gradient) ||
        block.getParameter(format::parameterOf(std::string_view(port.getName()))))
      return success();
    return block.emitOpError() << "binds no parameter \"" << port.getName() << "\", which '" << function.getSymName()
                               << "' asks for";
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(getArgumentPort(function, i))))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(getResultPort(function, i))))
      return failure();
  return success();
}
} // namespace

LogicalResult BlockOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>())
    if (!symbols.lookupNearestSymbolFrom<nn::ParameterOp>(*this, name))
      return emitOpError() << "binds " << name << ", which is not an nn.parameter";
  for (NamedAttribute named : getPrograms()) {
    auto name = cast<FlatSymbolRefAttr>(named.getValue());
    Operation *program = symbols.lookupNearestSymbolFrom(*this, name);
    if (!program)
      return emitOpError() << "has " << named.getName() << " = " << name << ", which is not there";
    auto function = dyn_cast<func::FuncOp>(program);
    if (!function) // it has become a program
      continue;
    if (function.isExternal() || !isa<func::ReturnOp>(function.getBody().front().back()))
      return emitOpError() << "has " << named.getName() << " = " << name << ", which has no body";
    if (function.getNumArguments() == 0 || function.getNumResults() == 0)
      return emitOpError() << "has " << named.getName() << " = " << name << ", which needs an argument and a result";
    if (failed(checkParameters(*this, function)))
      return failure();
  }
  return success();
}

//===- Ports -----------------------------------------------------------------------------------------------------===//

bool PortAttr::isFlow() const {
  return getKind() == PortKind::Flow && !format::isCotangent(std::string_view(getName()));
}
bool PortAttr::isPassed() const {
  const bool isBetweenPrograms = getKind() == PortKind::Remote || getKind() == PortKind::Shared;
  return isFlow() || (isBetweenPrograms && !format::isCotangent(std::string_view(getName())));
}
bool PortAttr::isSharedCotangent() const {
  return getKind() == PortKind::Shared && format::isCotangent(std::string_view(getName()));
}
bool PortAttr::isCotangent() const {
  return getKind() == PortKind::Flow && format::isCotangent(std::string_view(getName()));
}

namespace {
constexpr StringLiteral portAttribute = "train.port";
constexpr StringLiteral trainableAttribute = "train.trainable";
constexpr StringLiteral rowsAttribute = "train.rows";

/// What is known of an attribute by its name; `fits` says which ports belong there.
LogicalResult verifyAttribute(Operation *op, NamedAttribute attribute, bool (PortAttr::*fits)() const) {
  StringRef name = attribute.getName().strref();
  bool isKnown = true;
  if (name == portAttribute) {
    auto port = dyn_cast<PortAttr>(attribute.getValue());
    isKnown = port && (port.*fits)();
  } else if (name == trainableAttribute) {
    isKnown = isa<UnitAttr>(attribute.getValue());
  }
  if (isKnown)
    return success();
  return op->emitOpError() << "has " << name << " = " << attribute.getValue() << ", which means nothing there";
}
} // namespace

LogicalResult TrainDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, &PortAttr::mayGoIn);
}
LogicalResult TrainDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, &PortAttr::mayComeOut);
}

namespace mebp::train {
unsigned findLowestTrained(ModuleOp module) {
  const SymbolTable symbols(module);
  for (auto [index, block] : llvm::enumerate(module.getOps<BlockOp>()))
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
      if (symbols.lookup<nn::ParameterOp>(name.getValue()).getTrainable())
        return index;
  return 0;
}
SmallVector<format::ProgramTraits> getForwardPrograms(BlockOp block) {
  SmallVector<format::ProgramTraits> programs;
  if (block.getKind() != BlockKind::Head)
    llvm::copy_if(format::forwardPrograms, std::back_inserter(programs), [&](const format::ProgramTraits &program) {
      return program.name == format::forwardProgram || block.getProgram(program.name);
    });
  return programs;
}
PortAttr getArgumentPort(func::FuncOp function, unsigned index) {
  return function.getArgAttrOfType<PortAttr>(index, portAttribute);
}
PortAttr getResultPort(func::FuncOp function, unsigned index) {
  return function.getResultAttrOfType<PortAttr>(index, portAttribute);
}
void setArgumentPort(func::FuncOp function, unsigned index, PortKind kind, StringRef name) {
  function.setArgAttr(index, portAttribute, PortAttr::get(function.getContext(), kind, name));
}
void setResultPort(func::FuncOp function, unsigned index, PortKind kind, StringRef name) {
  function.setResultAttr(index, portAttribute, PortAttr::get(function.getContext(), kind, name));
}
bool isTrainable(func::FuncOp function, unsigned argument) {
  return static_cast<bool>(function.getArgAttr(argument, trainableAttribute));
}
void setTrainable(func::FuncOp function, unsigned argument) {
  function.setArgAttr(argument, trainableAttribute, UnitAttr::get(function.getContext()));
}
std::optional<int64_t> getTokenRows(func::FuncOp function) {
  auto rows = function->getAttrOfType<IntegerAttr>(rowsAttribute);
  return rows ? std::optional(rows.getInt()) : std::nullopt;
}
void setTokenRows(func::FuncOp function, int64_t rows) {
  function->setAttr(rowsAttribute, Builder(function.getContext()).getI64IntegerAttr(rows));
}
} // namespace mebp::train
