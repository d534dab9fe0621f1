// SPDX-License-Identifier: Apache-2.0
//
// Lets blocks of the same structure share one function.
//
// 1. The text of a function is its structure: its name, locations and the names of its parameters left out, how these
//    are stored put in.
// 2. The first function of each structure stays, named for its kind ("layer.forward", or "layer.1.forward" and so on
//    where there are several); blocks refer to it and take its names for their parameters, the others are erased.
#include "compiler/partition/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_SHAREFUNCTIONS
#include "compiler/partition/Passes.h.inc"

namespace {

std::string getStructure(train::BlockOp block, func::FuncOp function) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  copy->setName("structure");
  for (unsigned i = 0; i < copy->getNumArguments(); ++i)
    if (train::PortAttr port = train::getArgumentPort(*copy, i); port && port.getKind() == train::PortKind::Parameter) {
      auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(block, block.getParameter(port.getName()));
      std::optional<format::WeightFormat> stored = parameter.getWeightFormat();
      std::string storage = stored ? format::nameOf(format::storageOf(*stored)) : "trained";
      train::setArgumentPort(*copy, i, train::PortKind::Parameter, std::to_string(i) + " " + storage);
    }
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope().enableDebugInfo(false));
  return text;
}

/// Gives the block's parameters the names that `shared` has for what `own` calls otherwise.
void renameParameters(train::BlockOp block, func::FuncOp own, func::FuncOp shared) {
  SmallVector<Attribute> names;
  Builder builder(block.getContext());
  for (auto name : block.getParameterNames().getAsRange<StringAttr>()) {
    names.push_back(name);
    for (unsigned i = 0; i < own.getNumArguments(); ++i)
      if (train::getArgumentPort(own, i).is(train::PortKind::Parameter, name.getValue()))
        names.back() = builder.getStringAttr(train::getArgumentPort(shared, i).getName());
  }
  block.setParameterNamesAttr(builder.getArrayAttr(names));
}

struct ShareFunctions : impl::ShareFunctionsBase<ShareFunctions> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<func::FuncOp> byStructure;
    DenseMap<train::BlockOp, func::FuncOp> chosen;
    llvm::MapVector<StringAttr, SmallVector<func::FuncOp>> distinct; // by kind
    SmallVector<func::FuncOp> replaced;
    Builder builder(&getContext());

    for (auto block : module.getOps<train::BlockOp>()) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return signalPassFailure();
      auto [entry, isNew] = byStructure.try_emplace(
          (stringifyBlockKind(block.getKind()) + getStructure(block, function)).str(), function);
      chosen[block] = entry->second;
      if (isNew)
        distinct[builder.getStringAttr(stringifyBlockKind(block.getKind()))].push_back(function);
      else
        replaced.push_back(function);
      renameParameters(block, function, entry->second);
    }
    for (auto &[kind, functions] : distinct)
      for (auto [index, function] : llvm::enumerate(functions))
        function.setName(kind.getValue().str() + (functions.size() > 1 ? "." + std::to_string(index) : "") +
                         ".forward");
    for (auto [block, function] : chosen)
      block.setProgram(format::forwardProgram, function.getSymName());
    for (func::FuncOp function : replaced)
      function.erase();
    shared = replaced.size();
  }
};

} // namespace
} // namespace mebp
