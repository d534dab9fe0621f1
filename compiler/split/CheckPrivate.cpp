// SPDX-License-Identifier: Apache-2.0
//
// Checks, of a whole module, that nothing private reaches the server but through what is passed to it. A program knows
// of others only what comes in by its ports, so it is enough to look at those of the server's programs:
// 1. batch, result and gradient ports, and trained parameters, are private;
// 2. what flows in from the device may do so once, at the first block of the server, and likewise what flows back.
#include "compiler/split/Passes.h"
#include "compiler/split/Places.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_CHECKPRIVATE
#include "compiler/split/Passes.h.inc"

namespace {

struct CheckPrivate : impl::CheckPrivateBase<CheckPrivate> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const ServedBlocks served = findServedBlocks(module);
    for (auto [index, block] : llvm::enumerate(module.getOps<train::BlockOp>())) {
      if (index >= served.begin && index < served.end &&
          getPlace(block, format::forwardProgram) != format::serverPlace) {
        block.emitError() << "block '" << block.getSymName() << "' is on the device between blocks of the server, "
                          << "which would be handed more than the first hidden state";
        return signalPassFailure();
      }
      for (NamedAttribute program : block.getPrograms())
        if (getPlace(block, program.getName()) == format::serverPlace && failed(check(block, program)))
          return signalPassFailure();
    }
  }

  LogicalResult check(train::BlockOp block, NamedAttribute named) {
    auto name = cast<FlatSymbolRefAttr>(named.getValue());
    Operation *program = SymbolTable::lookupNearestSymbolFrom(block, name);
    auto checkPort = [&](train::PortAttr port) -> LogicalResult {
      std::string what = describePrivate(block, port);
      if (what.empty())
        return success();
      InFlightDiagnostic error = program->emitError()
                                 << "the server's program '" << named.getName().getValue() << "' of block '"
                                 << block.getSymName() << "' would have " << what << ", which stays on the device";
      return error;
    };
    SmallVector<train::PortAttr> ports;
    if (auto function = dyn_cast<func::FuncOp>(program)) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        ports.push_back(train::getArgumentPort(function, i));
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        ports.push_back(train::getResultPort(function, i));
    } else if (auto lowered = dyn_cast<exec::ProgramOp>(program)) {
      llvm::append_range(ports, lowered.getInputPorts().getAsRange<train::PortAttr>());
      llvm::append_range(ports, lowered.getOutputPorts().getAsRange<train::PortAttr>());
    }
    for (train::PortAttr port : ports)
      if (failed(checkPort(port)))
        return failure();
    return success();
  }

  /// Empty where it is not private.
  static std::string describePrivate(train::BlockOp block, train::PortAttr port) {
    const std::string name = port.getName().str();
    switch (port.getKind()) {
    case train::PortKind::Batch:
    case train::PortKind::Result:
      return "'" + name + "' of the user's text";
    case train::PortKind::Gradient:
      return "the gradient of '" + name + "'";
    case train::PortKind::Shared:
      return "'" + name + "', which several layers read,";
    case train::PortKind::Parameter: {
      auto parameter = SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(block, block.getParameter(name));
      return parameter && parameter.getTrainable() ? "the trained '" + name + "'" : "";
    }
    default:
      return "";
    }
  }
};

} // namespace
} // namespace mebp
