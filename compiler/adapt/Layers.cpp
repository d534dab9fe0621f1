// SPDX-License-Identifier: Apache-2.0
#include "compiler/adapt/Layers.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {

static format::LayerNumber findLayer(StringRef name) { return format::findLayerNumber({name.data(), name.size()}); }

static std::string describeRange(const LayerRange &range) {
  std::string text = std::to_string(range.first);
  return range.last == range.first ? text : text + "-" + std::to_string(range.last);
}

FailureOr<Layers> Layers::choose(ModuleOp module, const LayerChoice &choice) {
  Layers layers;
  if (choice.isAll())
    return layers;
  // PEFT takes no layers_to_transform beside the pattern that an adapter of a part has.
  if (auto part = module->getAttrOfType<StringAttr>("mebp.text_part"); part && !part.empty())
    return module.emitError() << "--lora-layers is not supported yet for the text of a model that takes more; leave it "
                              << "out";
  int64_t all = 0;
  for (auto block : module.getOps<train::BlockOp>())
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
      if (const format::LayerNumber found = findLayer(name.getValue()); block.getKind() == train::BlockKind::Layer &&
                                                                        !found.pattern.empty() &&
                                                                        (all == 0 || found.pattern == layers.pattern)) {
        layers.pattern = found.pattern;
        all = std::max(all, static_cast<int64_t>(found.number) + 1);
      }
  if (choice.lastOnes > all)
    return module.emitError() << "--lora-layers last:" << choice.lastOnes << ": the model has " << all
                              << " layers; give last:" << all << " or fewer";
  if (choice.lastOnes == 0 && choice.range.last >= all)
    return module.emitError() << "--lora-layers " << describeRange(choice.range) << ": the model has layers 0 to "
                              << all - 1 << "; give numbers of these";
  layers.isChosen = true;
  layers.first = choice.lastOnes ? all - choice.lastOnes : choice.range.first;
  layers.count = choice.lastOnes ? choice.lastOnes : choice.range.last - choice.range.first + 1;
  return layers;
}

bool Layers::mayTrain(StringRef name, StringRef target) const {
  if (areAll() || name == target)
    return true;
  const format::LayerNumber found = findLayer(name);
  return found.pattern == pattern && static_cast<int64_t>(found.number) >= first &&
         static_cast<int64_t>(found.number) < first + count;
}

LogicalResult Layers::checkTargets(ModuleOp module, ArrayRef<std::string> targets, StringRef option) const {
  for (const std::string &target : targets)
    if (!areAll() && !findLayer(target).pattern.empty())
      return module.emitError() << option << ": '" << target
                                << "' names a layer by its number, as --lora-layers does; leave out one of them";
  return success();
}

std::string Layers::describe() const {
  if (areAll())
    return "";
  if (count == 1)
    return " in layer " + std::to_string(first);
  return " in layers " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

void Layers::note(Builder &builder, NamedAttrList &attributes) const {
  if (areAll())
    return;
  attributes.set("first_layer", builder.getI64IntegerAttr(first));
  attributes.set("layer_count", builder.getI64IntegerAttr(count));
  attributes.set("layers_pattern", builder.getStringAttr(pattern));
}

} // namespace mebp
