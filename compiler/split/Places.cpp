// SPDX-License-Identifier: Apache-2.0
#include "compiler/split/Places.h"

#include "compiler/split/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace mebp {

std::string_view getPlace(train::BlockOp block, StringRef program) {
  auto place = block.getPlaces() ? block.getPlacesAttr().getAs<StringAttr>(program) : StringAttr();
  return place ? std::string_view(place.getValue()) : format::devicePlace;
}

ServedBlocks findServedBlocks(ModuleOp module) {
  ServedBlocks served;
  for (auto [index, block] : llvm::enumerate(module.getOps<train::BlockOp>()))
    if (getPlace(block, format::forwardProgram) == format::serverPlace) {
      served.begin = served.isEmpty() ? index : served.begin;
      served.end = index + 1;
    }
  return served;
}

/// The first block that a gradient is of, among all.
static unsigned findLowestTrained(ModuleOp module) {
  for (auto [index, block] : llvm::enumerate(module.getOps<train::BlockOp>()))
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
      if (module.lookupSymbol<nn::ParameterOp>(name.getAttr()).getTrainable())
        return index;
  return 0;
}

LogicalResult keepHalf(ModuleOp module, std::string_view place) {
  std::string text; // of all that decides on what passes between the halves
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs());
  const ServedBlocks served = findServedBlocks(module);
  Builder builder(module.getContext());
  auto number = [&](StringRef name, uint64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  module->setAttr("mebp.half", builder.getDictionaryAttr({
                                   builder.getNamedAttr("place", builder.getStringAttr(StringRef(place))),
                                   number("pair", llvm::xxh3_64bits(text)),
                                   number("first_block", served.begin),
                                   number("end_block", served.end),
                                   number("lowest_trained", findLowestTrained(module)),
                               }));
  PassManager passes(module.getContext());
  KeepPlaceOptions keep;
  keep.place = std::string(place);
  passes.addPass(createKeepPlace(keep));
  return passes.run(module);
}

} // namespace mebp
