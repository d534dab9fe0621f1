// SPDX-License-Identifier: Apache-2.0
//
// Decides which programs run on a server: those of all layers but the first and the last ones that are to stay, and of
// each of these all but the adapter's own. Everything else is the device's: the embedding, the head, the loss.
#include "compiler/split/Passes.h"

#include "format/split.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ASSIGNPLACES
#include "compiler/split/Passes.h.inc"

namespace {

struct AssignPlaces : impl::AssignPlacesBase<AssignPlaces> {
  using AssignPlacesBase::AssignPlacesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<train::BlockOp> layers;
    for (auto block : module.getOps<train::BlockOp>())
      if (block.getKind() == train::BlockKind::Layer)
        layers.push_back(block);
    const auto count = static_cast<int64_t>(layers.size());
    const int64_t first = deviceFirst, last = deviceLast; // an option itself would be printed as a character
    if (first < 0 || last < 0 || first + last >= count) {
      module.emitError() << "--device-first " << first << " --device-last " << last << ": the model has " << count
                         << " layers, and one at least has to be the server's";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    for (auto [number, block] : llvm::enumerate(layers)) {
      const bool isServed = static_cast<int64_t>(number) >= first && static_cast<int64_t>(number) < count - last;
      NamedAttrList places;
      for (NamedAttribute program : block.getPrograms()) {
        bool onServer = isServed && !format::isOfAdapter(program.getName().strref());
        places.append(program.getName(),
                      builder.getStringAttr(StringRef(onServer ? format::serverPlace : format::devicePlace)));
      }
      block.setPlacesAttr(places.getDictionary(&getContext()));
    }
  }
};

} // namespace
} // namespace mebp
