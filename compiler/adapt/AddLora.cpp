// SPDX-License-Identifier: Apache-2.0
//
// Adds LoRA (y = W x + alpha/r B A x) to the linear layers that the targets name.
//
// 1. A linear layer is called by its weight's name without ".weight". A target matches that name or its end, as in
//    PEFT; all-linear matches every linear layer but the head.
// 2. A (r x in, uniform in +-1/sqrt(in), which is PEFT's Kaiming initialisation) and B (out x r, zeros) become
//    trainable parameters under PEFT's keys, and arguments of the block's function.
// 3. A target that matches nothing is an error.
#include "compiler/adapt/Passes.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/UniqueVector.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDLORA
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddLora : impl::AddLoraBase<AddLora> {
  using AddLoraBase::AddLoraBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (rank <= 0) {
      module.emitError() << "--lora-rank " << rank.getValue() << ": give a rank of at least 1";
      return signalPassFailure();
    }
    std::vector<bool> matched(targets.size(), false);
    llvm::UniqueVector<std::string> available; // ends of names
    llvm::SetVector<StringRef> untouched;
    SmallVector<StringRef> adaptedLayers;
    for (auto block : llvm::to_vector(module.getOps<train::BlockOp>())) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return signalPassFailure();
      for (auto linear : llvm::to_vector(function.getOps<nn::LinearOp>())) {
        auto argument = dyn_cast<BlockArgument>(linear.getWeight());
        if (!argument || train::isTrainable(function, argument.getArgNumber()))
          continue;
        StringRef name = train::getArgumentPort(function, argument.getArgNumber()).getName();
        StringRef layer = format::layerOf(block.getParameter(name).getValue());
        bool isHead = block.getKind() == train::BlockKind::Head;
        available.insert(std::string(format::moduleOf(layer)) + (isHead ? " (the head)" : ""));
        if (!isTarget(layer, isHead, matched)) {
          untouched.insert(format::moduleOf(layer));
          continue;
        }
        if (failed(addAdapter(module, block, function, linear, layer, format::layerOf(name))))
          return signalPassFailure();
        adaptedLayers.push_back(layer);
        ++adapted;
      }
    }
    for (auto [target, found] : llvm::zip(targets, matched))
      if (!found) {
        module.emitError() << "--lora-targets: '" << target << "' matches no linear layer; there are "
                           << llvm::join(available, ", ");
        return signalPassFailure();
      }
    // PEFT adapts whatever ends like this: where some such layer was left alone, the others are listed by full names.
    llvm::SetVector<Attribute> names;
    for (StringRef layer : adaptedLayers) {
      StringRef module = format::moduleOf(layer);
      names.insert(StringAttr::get(&getContext(), untouched.contains(module) ? layer : module));
    }
    Builder builder(&getContext());
    module->setAttr("mebp.lora", builder.getDictionaryAttr({
                                     builder.getNamedAttr("rank", builder.getI64IntegerAttr(rank)),
                                     builder.getNamedAttr("alpha", builder.getF32FloatAttr(alpha)),
                                     builder.getNamedAttr("target_modules", builder.getArrayAttr(names.getArrayRef())),
                                 }));
  }

  bool isTarget(StringRef layer, bool isHead, std::vector<bool> &matched) {
    bool any = false;
    for (auto [i, target] : llvm::enumerate(targets)) {
      bool matches = target == "all-linear" ? !isHead : layer == target || layer.ends_with("." + target);
      if (matches)
        matched[i] = any = true;
    }
    return any;
  }

  LogicalResult addAdapter(ModuleOp module, train::BlockOp block, func::FuncOp function, nn::LinearOp linear,
                           StringRef layer, StringRef ownName) {
    auto weight = cast<RankedTensorType>(linear.getWeight().getType());
    int64_t outputs = weight.getDimSize(0), inputs = weight.getDimSize(1);
    if (rank > std::min(inputs, outputs))
      return linear.emitError() << "--lora-rank " << rank.getValue() << " is above the width of '" << layer << "' ("
                                << outputs << " x " << inputs << "): give at most " << std::min(inputs, outputs);
    std::string nameA = format::factorOf(layer, format::Factor::A), nameB = format::factorOf(layer, format::Factor::B);
    if (module.lookupSymbol(nameA))
      return linear.emitError() << "--lora-targets: '" << layer << "' is used in several places, which would need one "
                                << "adapter for all of them; leave it out";
    auto element = weight.getElementType();
    auto typeA = RankedTensorType::get({rank, inputs}, element);
    auto typeB = RankedTensorType::get({outputs, rank}, element);
    float bound = 1.0f / std::sqrt(static_cast<float>(inputs));
    auto add = [&](const std::string &name, format::Factor factor, RankedTensorType type, float bound) {
      return addTrainable(block, function, name, (ownName + format::factorSuffix(factor)).str(), type, bound,
                          linear.getLoc());
    };
    Value a = add(nameA, format::Factor::A, typeA, bound);
    Value b = add(nameB, format::Factor::B, typeB, 0.0f);

    OpBuilder builder(linear);
    auto hidden = nn::LinearOp::create(builder, linear.getLoc(), nn::getTokensType(rank, element), linear.getX(), a,
                                       Value(), Value());
    auto low = nn::LinearOp::create(builder, linear.getLoc(), linear.getType(), hidden, b, Value(), linear.getAddend(),
                                    static_cast<float>(alpha / static_cast<double>(rank)));
    linear.getAddendMutable().assign(low.getResult());
    return success();
  }

  Value addTrainable(train::BlockOp block, func::FuncOp function, const std::string &name, const std::string &ownName,
                     RankedTensorType type, float bound, Location location) {
    OpBuilder builder(block);
    auto parameter = nn::ParameterOp::create(builder, location, name, type);
    parameter.setTrainable(true);
    parameter.setInitialBoundAttr(builder.getF32FloatAttr(bound));
    block.addParameter(ownName, name);

    unsigned argument = function.getNumArguments();
    (void)function.insertArgument(argument, type, {}, location);
    train::setArgumentPort(function, argument, train::PortKind::Parameter, ownName);
    train::setTrainable(function, argument);
    return function.getArgument(argument);
  }
};

} // namespace
} // namespace mebp
