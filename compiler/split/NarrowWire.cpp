// SPDX-License-Identifier: Apache-2.0
//
// Makes bf16 what crosses between a device and a server, where activations are f32 (--wire bf16). What a program gives
// by such a port is rounded where it is stored; what stays in one place goes on being f32. It is done before the module
// is split, so that a module in one place, with the same option, rounds alike.
//
// 1. What crosses: all that programs of a served block give each other, and what flows into the server's first block
//    and out of its last one; cotangents of these.
// 2. Blocks share functions, and of some that share one, other things cross. So each such group gets a clone.
#include "compiler/rewrite/Narrower.h"
#include "compiler/split/Passes.h"
#include "compiler/split/Places.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_NARROWWIRE
#include "compiler/split/Passes.h.inc"

namespace {

/// Of one block.
struct Crossing {
  bool input = false, output = false; // of its flows
  bool remote = false;                // between its programs

  std::string describe() const {
    return std::string(input ? ".input" : "") + (output ? ".output" : "") + (remote ? ".remote" : "");
  }
};

struct NarrowWire : impl::NarrowWireBase<NarrowWire> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const ServedBlocks served = findServedBlocks(module);
    llvm::StringSet<> used;
    for (auto [index, block] : llvm::enumerate(module.getOps<train::BlockOp>())) {
      const Crossing crossing = {index == served.begin || index == served.end,
                                 index + 1 == served.begin || index + 1 == served.end,
                                 index >= served.begin && index < served.end};
      for (NamedAttribute program : llvm::to_vector(block.getPrograms())) {
        if (func::FuncOp function = block.lookupFunction(program.getName()))
          block.setProgram(program.getName(), narrow(function, program.getName().strref(), crossing));
        used.insert(cast<FlatSymbolRefAttr>(block.getPrograms().get(program.getName())).getValue());
      }
    }
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (!used.contains(function.getSymName()))
        function.erase();
  }

  /// The name of the function in which that is bf16.
  StringRef narrow(func::FuncOp function, StringRef program, const Crossing &crossing) {
    Crossing own; // of what this function takes and gives
    auto crosses = [&](train::PortAttr port, bool comesIn) {
      if (!port)
        return false;
      if (port.getKind() == train::PortKind::Remote)
        return own.remote |= crossing.remote;
      if (port.getKind() != train::PortKind::Flow)
        return false;
      // A cotangent that goes out is of the input; so is one that comes in to be added to.
      const bool isCotangent = format::isCotangent(std::string_view(port.getName()));
      const bool isOfInput = isCotangent ? !comesIn || format::addsCotangents(program) : comesIn;
      return isOfInput ? own.input |= crossing.input : own.output |= crossing.output;
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      (void)crosses(train::getArgumentPort(function, i), true);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      (void)crosses(train::getResultPort(function, i), false);
    const std::string what = own.describe();
    if (what.empty())
      return function.getSymName();
    const std::string name = function.getSymName().str() + what;
    func::FuncOp &clone = clones[name];
    if (!clone) {
      OpBuilder builder(function);
      clone = cast<func::FuncOp>(builder.clone(*function));
      clone.setName(name);
      narrowActivations(clone, crosses);
    }
    return clone.getSymName();
  }

  llvm::StringMap<func::FuncOp> clones;
};

} // namespace
} // namespace mebp
