// SPDX-License-Identifier: Apache-2.0
//
// Lets blocks of the same structure share one function.
//
// 1. The text of a block's functions is its structure: their names, locations and the names of parameters left out, how
//    these are stored put in.
// 2. The functions of the first block of each structure stay, named for its kind ("layer.forward", or "layer.1.forward"
//    and so on where there are several); blocks refer to them and take that block's names for their parameters, the
//    others are erased.
#include "compiler/partition/Passes.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_SHAREFUNCTIONS
#include "compiler/partition/Passes.h.inc"

namespace {

/// Appends the structure of one of the block's functions.
void printStructure(train::BlockOp block, func::FuncOp function, llvm::raw_ostream &stream) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  copy->setName("structure");
  ArrayRef<Attribute> names = block.getParameterNames().getValue();
  for (unsigned i = 0; i < copy->getNumArguments(); ++i)
    if (train::PortAttr port = train::getArgumentPort(*copy, i); port && port.getKind() == train::PortKind::Parameter) {
      auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(block, block.getParameter(port.getName()));
      std::optional<format::WeightFormat> stored = parameter.getWeightFormat();
      std::string storage = stored ? format::nameOf(format::storageOf(*stored)) : "trained";
      auto number =
          llvm::find_if(names, [&](Attribute name) { return cast<StringAttr>(name).getValue() == port.getName(); }) -
          names.begin();
      train::setArgumentPort(*copy, i, train::PortKind::Parameter, std::to_string(number) + " " + storage);
    }
  copy->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope().enableDebugInfo(false));
}

struct ShareFunctions : impl::ShareFunctionsBase<ShareFunctions> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<train::BlockOp> byStructure;
    llvm::MapVector<StringRef, SmallVector<train::BlockOp>> distinct; // by kind
    SmallVector<func::FuncOp> replaced;
    for (auto block : module.getOps<train::BlockOp>()) {
      if (!block.lookupFunction(format::forwardProgram))
        return signalPassFailure();
      std::string structure = stringifyBlockKind(block.getKind()).str();
      llvm::raw_string_ostream stream(structure);
      SmallVector<func::FuncOp> functions;
      for (NamedAttribute program : block.getPrograms()) {
        functions.push_back(block.lookupFunction(program.getName()));
        if (!functions.back())
          return signalPassFailure();
        stream << "\n" << program.getName().getValue() << ": ";
        printStructure(block, functions.back(), stream);
      }
      auto [entry, isNew] = byStructure.try_emplace(structure, block);
      if (isNew) {
        distinct[stringifyBlockKind(block.getKind())].push_back(block);
      } else {
        llvm::append_range(replaced, functions);
        originals[block] = entry->second;
      }
    }
    for (auto &[kind, blocks] : distinct)
      for (auto [index, block] : llvm::enumerate(blocks))
        rename(block, kind.str() + (blocks.size() > 1 ? "." + std::to_string(index) : ""));
    for (auto [block, original] : originals) {
      block.setProgramsAttr(original.getProgramsAttr());
      block.setParameterNamesAttr(original.getParameterNamesAttr());
    }
    for (func::FuncOp function : replaced)
      function.erase();
    shared = replaced.size();
  }

  void rename(train::BlockOp block, const std::string &stem) {
    for (NamedAttribute program : llvm::to_vector(block.getPrograms())) {
      func::FuncOp function = block.lookupFunction(program.getName());
      function.setName(stem + "." + program.getName().str());
      block.setProgram(program.getName(), function.getSymName());
    }
  }

  llvm::MapVector<train::BlockOp, train::BlockOp> originals; // of what is replaced
};

} // namespace
} // namespace mebp
