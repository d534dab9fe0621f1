// SPDX-License-Identifier: Apache-2.0
//
// Keeps what one place runs: of each block its programs there and the parameters that these bind. Blocks stay, so that
// both halves number them alike; so do frozen parameters that nobody binds, which tell of what the other place has.
#include "compiler/split/Passes.h"
#include "compiler/split/Places.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_KEEPPLACE
#include "compiler/split/Passes.h.inc"

namespace {

struct KeepPlace : impl::KeepPlaceBase<KeepPlace> {
  using KeepPlaceBase::KeepPlaceBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringSet<> used;
    for (auto block : module.getOps<train::BlockOp>()) {
      for (NamedAttribute program : llvm::to_vector(block.getPrograms()))
        if (getPlace(block, program.getName()) == place.getValue())
          used.insert(cast<FlatSymbolRefAttr>(program.getValue()).getValue());
        else
          block.removeProgram(program.getName());
      keepParameters(module, block);
    }
    for (auto program : llvm::to_vector(module.getOps<exec::ProgramOp>()))
      if (!used.contains(program.getSymName()))
        program.erase();
    for (auto parameter : llvm::to_vector(module.getOps<nn::ParameterOp>()))
      if (parameter.getTrainable() && !bound.contains(parameter.getSymName()))
        parameter.erase();
  }

  void keepParameters(ModuleOp module, train::BlockOp block) {
    llvm::StringSet<> named;
    for (NamedAttribute entry : block.getPrograms()) {
      auto program = module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(entry.getValue()));
      for (train::PortAttr port :
           llvm::concat<train::PortAttr>(llvm::to_vector(program.getInputPorts().getAsRange<train::PortAttr>()),
                                         llvm::to_vector(program.getOutputPorts().getAsRange<train::PortAttr>())))
        if (port.getKind() == train::PortKind::Parameter || port.getKind() == train::PortKind::Gradient)
          named.insert(port.getName());
    }
    SmallVector<Attribute> names, parameters;
    for (auto [name, parameter] : llvm::zip(block.getParameterNames(), block.getParameters()))
      if (named.contains(cast<StringAttr>(name).getValue())) {
        bound.insert(cast<FlatSymbolRefAttr>(parameter).getValue());
        names.push_back(name);
        parameters.push_back(parameter);
      }
    Builder builder(block.getContext());
    block.setParameterNamesAttr(builder.getArrayAttr(names));
    block.setParametersAttr(builder.getArrayAttr(parameters));
  }

  llvm::StringSet<> bound; // by any block
};

} // namespace
} // namespace mebp
