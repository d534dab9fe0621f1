// SPDX-License-Identifier: Apache-2.0
//
// Lets blocks of the same structure share one function.
//
// 1. The text of a function, its name and locations left out, is its structure.
// 2. The first function of each structure stays, named for its kind ("layer.forward", or "layer.1.forward" and so on
//    where there are several); blocks refer to it, the others are erased.
#include "compiler/partition/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_SHAREFUNCTIONS
#include "compiler/partition/Passes.h.inc"

namespace {

std::string getStructure(func::FuncOp function) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  copy->setName("structure");
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope().enableDebugInfo(false));
  return text;
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
      func::FuncOp function = block.lookupFunction(train::ProgramUse::Forward);
      if (!function)
        return signalPassFailure();
      auto [entry, isNew] =
          byStructure.try_emplace((stringifyBlockKind(block.getKind()) + getStructure(function)).str(), function);
      chosen[block] = entry->second;
      if (isNew)
        distinct[builder.getStringAttr(stringifyBlockKind(block.getKind()))].push_back(function);
      else
        replaced.push_back(function);
    }
    for (auto &[kind, functions] : distinct)
      for (auto [index, function] : llvm::enumerate(functions))
        function.setName(kind.getValue().str() + (functions.size() > 1 ? "." + std::to_string(index) : "") +
                         ".forward");
    for (auto [block, function] : chosen)
      block.setForwardAttr(FlatSymbolRefAttr::get(function.getSymNameAttr()));
    for (func::FuncOp function : replaced)
      function.erase();
    shared = replaced.size();
  }
};

} // namespace
} // namespace mebp
