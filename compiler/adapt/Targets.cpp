// SPDX-License-Identifier: Apache-2.0
#include "compiler/adapt/Targets.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace mebp {

/// All that there are.
SmallVector<AdaptedLinear> Targets::collect(train::BlockOp block, func::FuncOp function) {
  SmallVector<AdaptedLinear> found;
  for (auto linear : function.getOps<nn::LinearOp>()) {
    auto argument = dyn_cast<BlockArgument>(linear.getWeight());
    if (!argument || train::isTrainable(function, argument.getArgNumber()))
      continue;
    StringRef name = train::getArgumentPort(function, argument.getArgNumber()).getName();
    auto module = block->getParentOfType<ModuleOp>();
    auto parameter = module.lookupSymbol<nn::ParameterOp>(block.getParameter(name));
    if (parameter && parameter.getBare())
      continue;
    StringRef layer = format::layerOf(block.getParameter(name).getValue());
    found.push_back({linear, layer.str(), std::string(format::layerOf(std::string_view(name)))});
  }
  return found;
}

SmallVector<AdaptedLinear> Targets::find(train::BlockOp block, func::FuncOp function) {
  SmallVector<AdaptedLinear> found;
  bool isHead = block.getKind() == train::BlockKind::Head;
  // PEFT would adapt by their names what is trained itself.
  for (auto linear : function.getOps<nn::LinearOp>())
    if (auto weight = dyn_cast<BlockArgument>(linear.getWeight());
        weight && train::isTrainable(function, weight.getArgNumber())) {
      StringRef name = train::getArgumentPort(function, weight.getArgNumber()).getName();
      untouched.insert(std::string(format::moduleOf(format::layerOf(block.getParameter(name).getValue()))));
    }
  for (const AdaptedLinear &linear : collect(block, function)) {
    std::string module(format::moduleOf(linear.layer));
    available.insert(module + (isHead ? " (the head)" : ""));
    if (!isTarget(linear.layer, isHead)) {
      untouched.insert(module);
      continue;
    }
    found.push_back(linear);
    adapted.push_back(linear.layer);
  }
  return found;
}

void Targets::leave(train::BlockOp block, func::FuncOp function) {
  for (const AdaptedLinear &linear : collect(block, function))
    untouched.insert(std::string(format::moduleOf(linear.layer)));
}

bool Targets::isTarget(StringRef layer, bool isHead) {
  bool any = false;
  for (auto [i, target] : llvm::enumerate(targets)) {
    bool matches = target == "all-linear" ? !isHead : layer == target || layer.ends_with("." + target);
    if (matches)
      matched[i] = any = true;
  }
  return any;
}

LogicalResult Targets::checkAll(ModuleOp module) const {
  for (auto [target, found] : llvm::zip(targets, matched))
    if (!found)
      return module.emitError() << option << ": '" << target << "' matches no linear layer; there are "
                                << llvm::join(available, ", ");
  return success();
}

ArrayAttr Targets::getModules(MLIRContext *context) const {
  llvm::SetVector<Attribute> names;
  for (const std::string &layer : adapted) {
    std::string module(format::moduleOf(layer));
    names.insert(StringAttr::get(context, untouched.contains(module) ? layer : module));
  }
  return ArrayAttr::get(context, names.getArrayRef());
}

nn::ParameterOp declareFactor(train::BlockOp block, StringRef name, RankedTensorType type, Location location) {
  OpBuilder builder(block);
  return nn::ParameterOp::create(builder, location, name, type);
}

Value addFactor(train::BlockOp block, func::FuncOp function, nn::ParameterOp parameter, StringRef ownName) {
  if (!block.getParameter(ownName))
    block.addParameter(ownName, parameter.getSymName());
  unsigned argument = function.getNumArguments();
  (void)function.insertArgument(argument, parameter.getTensorType(), {}, parameter.getLoc());
  train::setArgumentPort(function, argument, train::PortKind::Parameter, ownName);
  if (parameter.getTrainable())
    train::setTrainable(function, argument);
  return function.getArgument(argument);
}

} // namespace mebp
