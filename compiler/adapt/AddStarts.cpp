// SPDX-License-Identifier: Apache-2.0
//
// Lets samples share a row of tokens: whatever looks at other tokens or at positions is told where each token's sample
// starts (mebpc --packing), and what looks at later ones, where it ends. Which ops these are, format/kernels.h says.
// The head has none: which rows it predicts from is the runtime's to say.
#include "compiler/adapt/Passes.h"

#include "dialects/nn/Kernels.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDSTARTS
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddStarts : impl::AddStartsBase<AddStarts> {
  void runOnOperation() override {
    DenseSet<Attribute> done;
    for (auto block : getOperation().getOps<train::BlockOp>())
      for (NamedAttribute program : block.getPrograms()) {
        if (!done.insert(program.getValue()).second)
          continue;
        func::FuncOp function = block.lookupFunction(program.getName());
        if (!function)
          return signalPassFailure();
        addTo(function);
      }
  }

  static void addTo(func::FuncOp function) {
    for (std::string_view port : {format::startsPort, format::endsPort}) {
      Value bounds;
      for (Operation &op : function.getBody().front()) {
        int slot = nn::findSlot(&op, port);
        if (slot == format::noSlot)
          continue;
        if (!bounds) {
          unsigned index = function.getNumArguments();
          Type type = nn::getTokensType(1, IntegerType::get(function.getContext(), 32));
          (void)function.insertArgument(index, type, {}, function.getLoc());
          train::setArgumentPort(function, index, train::PortKind::Batch, port);
          bounds = function.getArgument(index);
        }
        nn::setSlotOperand(&op, slot, bounds);
      }
    }
  }
};

} // namespace
} // namespace mebp
