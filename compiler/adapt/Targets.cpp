// SPDX-License-Identifier: Apache-2.0
#include "compiler/adapt/Targets.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace mebp {

/// The name of a parameter with its module: experts.down_proj, gate.weight.
static StringRef withModule(StringRef weight) {
  size_t dot = weight.rfind('.');
  dot = dot == StringRef::npos ? dot : weight.rfind('.', dot);
  return weight.substr(dot == StringRef::npos ? 0 : dot + 1);
}

/// All that there are.
SmallVector<AdaptedLinear> Targets::collect(train::BlockOp block, func::FuncOp function) {
  SmallVector<AdaptedLinear> found;
  auto module = block->getParentOfType<ModuleOp>();
  auto add = [&](nn::LinearOp linear, nn::ExpertLinearOp experts, Value weight) {
    auto argument = dyn_cast<BlockArgument>(weight);
    if (!argument || train::isTrainable(function, argument.getArgNumber()))
      return;
    StringRef ownName = train::getArgumentPort(function, argument.getArgNumber()).getName();
    StringRef name = block.getParameter(ownName).getValue();
    auto parameter = module.lookupSymbol<nn::ParameterOp>(name);
    bool isParameter = (experts && !experts.isPart()) || (parameter && parameter.getBare());
    found.push_back({linear, experts, std::string(format::layerOf(name)), std::string(format::layerOf(ownName)),
                     name.str(), isParameter});
  };
  for (Operation &op : function.getOps()) {
    if (auto linear = dyn_cast<nn::LinearOp>(op))
      add(linear, {}, linear.getWeight());
    else if (auto experts = dyn_cast<nn::ExpertLinearOp>(op))
      add({}, experts, experts.getWeight());
  }
  return found;
}

/// Names those of one module's parameters by the module: the last by its own name, the others within it.
static void nameByModule(MutableArrayRef<AdaptedLinear> found) {
  llvm::StringMap<std::string> nested; // what the next outer adapter of a module lies in
  for (AdaptedLinear &target : llvm::reverse(found)) {
    if (!target.isParameter || target.weight != target.layer)
      continue;
    auto moduleOfParameter = [](StringRef name) { return name.rsplit('.').first.str(); };
    std::string &within = nested[moduleOfParameter(target.weight)];
    target.layer = moduleOfParameter(target.layer) + within;
    target.ownName = moduleOfParameter(target.ownName) + within;
    within += ".base_layer";
  }
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
    if (!linear.isParameter)
      available.insert(std::string(format::moduleOf(linear.layer)) + (isHead ? " (the head)" : ""));
    else if (parameters)
      available.insert(withModule(linear.weight).str());
    if (!isTarget(linear, isHead)) {
      // PEFT leaves layers alone that it is not told of, but not what target_parameters name in them.
      const bool isOfOtherLayer = !layers.areAll() && !linear.isParameter &&
                                  llvm::any_of(targets, [&](StringRef one) { return isNamed(linear, isHead, one); });
      if (!isOfOtherLayer)
        leave(linear);
      continue;
    }
    found.push_back(linear);
    (linear.isParameter ? adaptedParameters : adapted).push_back(linear.isParameter ? linear.weight : linear.layer);
  }
  nameByModule(found);
  return found;
}

void Targets::leave(train::BlockOp block, func::FuncOp function) {
  for (const AdaptedLinear &linear : collect(block, function))
    leave(linear);
}

void Targets::leave(const AdaptedLinear &linear) {
  if (linear.layer != linear.weight)
    untouched.insert(std::string(format::moduleOf(linear.layer)));
  untouchedParameters.insert(withModule(linear.weight));
}

bool Targets::isNamed(const AdaptedLinear &linear, bool isHead, StringRef target) const {
  auto endsWith = [](StringRef name, StringRef end) { return name == end || name.ends_with(("." + end).str()); };
  if (linear.experts && !parameters) // only LoRA has adapters of these
    return false;
  if (target == "all-linear")
    return !isHead && !linear.isParameter;
  if (!linear.isParameter)
    return endsWith(linear.layer, target);
  bool isLayer = linear.layer != linear.weight && endsWith(linear.layer, target);
  return parameters && (isLayer || (target.contains('.') && endsWith(linear.weight, target)));
}

bool Targets::isTarget(const AdaptedLinear &linear, bool isHead) {
  bool any = false;
  for (auto [i, target] : llvm::enumerate(targets))
    if (isNamed(linear, isHead, target) && layers.mayTrain(linear.layer, target))
      matched[i] = any = true;
  return any;
}

LogicalResult Targets::checkAll(ModuleOp module) const {
  for (auto [target, found] : llvm::zip(targets, matched))
    if (!found)
      return module.emitError() << option << ": '" << target << "' matches no linear layer" << layers.describe()
                                << "; there are " << llvm::join(available, ", ");
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

ArrayAttr Targets::getParameters(MLIRContext *context) const {
  llvm::SetVector<Attribute> names;
  for (StringRef weight : adaptedParameters) {
    StringRef end = withModule(weight);
    names.insert(StringAttr::get(context, untouchedParameters.contains(end) ? weight : end));
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
