// SPDX-License-Identifier: Apache-2.0
//
// Adds LoRA (y = W x + alpha/r B A x) to the linear layers that the targets name.
//
// A (r x in, uniform in +-1/sqrt(in), which is PEFT's Kaiming initialisation) and B (out x r, zeros) become trainable
// parameters under PEFT's keys, and arguments of the block's function.
#include "compiler/Options.h"
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/Targets.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDLORA
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddLora : impl::AddLoraBase<AddLora> {
  using AddLoraBase::AddLoraBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (std::string wrong = findWrongRank("--lora-rank", rank); !wrong.empty()) {
      module.emitError() << wrong;
      return signalPassFailure();
    }
    Targets chosen(targets, "--lora-targets");
    for (auto block : llvm::to_vector(module.getOps<train::BlockOp>())) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return signalPassFailure();
      for (const AdaptedLinear &target : chosen.find(block, function)) {
        if (failed(addAdapter(module, block, function, target)))
          return signalPassFailure();
        ++adapted;
      }
    }
    if (failed(chosen.checkAll(module)))
      return signalPassFailure();
    Builder builder(&getContext());
    module->setAttr("mebp.lora", builder.getDictionaryAttr({
                                     builder.getNamedAttr("rank", builder.getI64IntegerAttr(rank)),
                                     builder.getNamedAttr("alpha", builder.getF32FloatAttr(alpha)),
                                     builder.getNamedAttr("target_modules", chosen.getModules(&getContext())),
                                 }));
  }

  LogicalResult addAdapter(ModuleOp module, train::BlockOp block, func::FuncOp function, const AdaptedLinear &target) {
    nn::LinearOp linear = target.linear;
    const std::string &layer = target.layer;
    auto weight = cast<RankedTensorType>(linear.getWeight().getType());
    int64_t outputs = weight.getDimSize(0), inputs = weight.getDimSize(1);
    // Gates and routers have few outputs; PEFT adapts them by the same rank.
    if (rank > inputs)
      return linear.emitError() << "--lora-rank " << rank.getValue() << " is above the width of '" << layer << "' ("
                                << outputs << " x " << inputs << "): give at most " << inputs;
    std::string nameA = format::factorOf(layer, format::Factor::A), nameB = format::factorOf(layer, format::Factor::B);
    if (module.lookupSymbol(nameA))
      return linear.emitError() << "--lora-targets: '" << layer << "' is used in several places, which would need one "
                                << "adapter for all of them; leave it out";
    auto element = weight.getElementType();
    auto typeA = RankedTensorType::get({rank, inputs}, element);
    auto typeB = RankedTensorType::get({outputs, rank}, element);
    float bound = 1.0f / std::sqrt(static_cast<float>(inputs));
    auto add = [&](const std::string &name, format::Factor factor, RankedTensorType type, float bound) {
      nn::ParameterOp parameter = declareFactor(block, name, type, linear.getLoc());
      parameter.setTrainable(true);
      parameter.setInitialBoundAttr(Builder(&getContext()).getF32FloatAttr(bound));
      return addFactor(block, function, parameter, target.ownName + std::string(format::factorSuffix(factor)));
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
};

} // namespace
} // namespace mebp
