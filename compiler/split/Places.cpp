// SPDX-License-Identifier: Apache-2.0
#include "compiler/split/Places.h"

#include "compiler/split/Passes.h"
#include "dialects/exec/Exec.h"
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

namespace {
struct Ring {
  int64_t capacity = 0, slack = 0; // 0: none is read through a window
};
} // namespace

/// Of all that read keys and values through a window, the shortest. What carries a state has one position, and can give
/// up any number of them, as it goes back by a copy.
static Ring findRing(ModuleOp module) {
  bool carriesState = false;
  Ring ring;
  module.walk([&](exec::KernelOp kernel) {
    const DictionaryAttr attributes = kernel.getKernelAttributes();
    if (auto items = attributes.getAs<IntegerAttr>("items"); items && items.getInt() > 0) {
      carriesState = true;
      return;
    }
    auto capacity = attributes.getAs<IntegerAttr>("capacity"), window = attributes.getAs<IntegerAttr>("window");
    if (!capacity || !window || capacity.getInt() <= 0 || window.getInt() <= 0)
      return;
    const int64_t slack = capacity.getInt() - window.getInt() + 1;
    const bool isFirst = ring.capacity == 0;
    ring.capacity = isFirst ? capacity.getInt() : std::min(ring.capacity, capacity.getInt());
    ring.slack = isFirst ? slack : std::min(ring.slack, slack);
  });
  if (carriesState)
    ring = {1, ring.capacity ? ring.slack : std::numeric_limits<int32_t>::max()};
  return ring;
}

LogicalResult keepHalf(ModuleOp module, std::string_view place) {
  std::string text; // of all that decides on what passes between the halves
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs());
  const ServedBlocks served = findServedBlocks(module);
  const Ring ring = findRing(module);
  Builder builder(module.getContext());
  auto number = [&](StringRef name, uint64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  module->setAttr("mebp.half", builder.getDictionaryAttr({
                                   builder.getNamedAttr("place", builder.getStringAttr(StringRef(place))),
                                   number("pair", llvm::xxh3_64bits(text)),
                                   number("first_block", served.begin),
                                   number("end_block", served.end),
                                   number("lowest_trained", train::findLowestTrained(module)),
                                   number("ring", ring.capacity),
                                   number("ring_slack", ring.slack),
                               }));
  PassManager passes(module.getContext());
  KeepPlaceOptions keep;
  keep.place = std::string(place);
  passes.addPass(createKeepPlace(keep));
  return passes.run(module);
}

} // namespace mebp
