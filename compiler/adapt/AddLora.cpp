// SPDX-License-Identifier: Apache-2.0
//
// Adds LoRA (y = W x + alpha/r B A x) to the linear layers that the targets name. Rank-stabilised, it is
// alpha/sqrt(r) (Kalajdzievski 2023, arXiv:2312.03732), which is an alpha of alpha sqrt(r). With dropout, A reads
// dropout(x), and each layer has a mask of its own.
//
// A (r x in, uniform in +-1/sqrt(in), which is PEFT's Kaiming initialisation) and B (out x r, zeros) become trainable
// parameters under PEFT's keys, and arguments of the block's function. Of E experts A is (E r x in) with the rows of
// one after those of another, and B (out x r E) with an expert in every E-th column. A linear layer of which each block
// computes a part has one A and one B, whose rows make the same part.
#include "compiler/Options.h"
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/Targets.h"
#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"

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
    FailureOr<Layers> layers = Layers::choose(module, {lastLayers, {fromLayer, toLayer}});
    if (failed(layers) || failed(layers->checkTargets(module, targets, "--lora-targets")))
      return signalPassFailure();
    Targets chosen(targets, "--lora-targets", /*parameters=*/true, *layers);
    for (auto block : llvm::to_vector(module.getOps<train::BlockOp>())) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return signalPassFailure();
      salts = 0;
      for (const AdaptedLinear &target : chosen.find(block, function)) {
        if (dropout != 0 && failed(checkDropped(block, target)))
          return signalPassFailure();
        if (failed(addAdapter(module, block, function, target)))
          return signalPassFailure();
        ++adapted;
      }
    }
    if (failed(chosen.checkAll(module)))
      return signalPassFailure();
    Builder builder(&getContext());
    NamedAttrList lora;
    lora.set("rank", builder.getI64IntegerAttr(rank));
    lora.set("alpha", builder.getF32FloatAttr(overRank()));
    if (isRankStabilized)
      lora.set("rslora_alpha", builder.getF32FloatAttr(alpha));
    if (dropout != 0)
      lora.set("dropout", builder.getF32FloatAttr(dropout));
    lora.set("target_modules", chosen.getModules(&getContext()));
    layers->note(builder, lora);
    module->setAttr("mebp.lora", lora.getDictionary(&getContext()));
    if (ArrayAttr parameters = chosen.getParameters(&getContext()); !parameters.empty())
      module->setAttr("mebp.target_parameters", parameters);
  }

  /// What is divided by the rank.
  double overRank() const { return isRankStabilized ? alpha * std::sqrt(static_cast<double>(rank)) : double(alpha); }

  /// The head reads the rows that predict alone, which have no position of their own there. PEFT has no dropout for
  /// parameters of experts either.
  static LogicalResult checkDropped(train::BlockOp block, const AdaptedLinear &target) {
    nn::LinearOp linear = target.linear;
    nn::ExpertLinearOp ofExperts = target.experts;
    Operation *op = ofExperts ? ofExperts.getOperation() : linear.getOperation();
    const bool isHead = block.getKind() == train::BlockKind::Head;
    if (!isHead && !ofExperts && !target.isParameter)
      return success();
    return op->emitError() << "--lora-dropout does not reach '" << target.layer << "', which is "
                           << (isHead ? "the head" : "of experts or their router")
                           << "; leave it out of --lora-targets, or leave out --lora-dropout";
  }

  LogicalResult addAdapter(ModuleOp module, train::BlockOp block, func::FuncOp function, const AdaptedLinear &target) {
    nn::LinearOp linear = target.linear;
    nn::ExpertLinearOp ofExperts = target.experts;
    Operation *op = ofExperts ? ofExperts.getOperation() : linear.getOperation();
    const std::string &layer = target.layer;
    auto weight = cast<RankedTensorType>(op->getOperand(1).getType());
    const bool isPart = ofExperts && ofExperts.isPart();
    int64_t slots = ofExperts ? nn::features(ofExperts.getIds()) : 1;
    int64_t outputs = isPart ? weight.getDimSize(0) : nn::features(op->getResult(0)) / slots;
    int64_t inputs = weight.getDimSize(1), experts = weight.getDimSize(0) / outputs;
    // Gates and routers have few outputs; PEFT adapts them by the same rank.
    if (rank > inputs)
      return op->emitError() << "--lora-rank " << rank.getValue() << " is above the width of '" << layer << "' ("
                             << outputs << " x " << inputs << "): give at most " << inputs;
    std::string nameA = format::factorOf(layer, format::Factor::A), nameB = format::factorOf(layer, format::Factor::B);
    const bool isKnown = module.lookupSymbol(nameA);
    if (isKnown &&
        (!isPart || block.getParameter(target.ownName + std::string(format::factorSuffix(format::Factor::A)))))
      return op->emitError() << "--lora-targets: '" << layer << "' is used in several places, which would need one "
                             << "adapter for all of them; leave it out";
    auto element = weight.getElementType();
    auto typeA = RankedTensorType::get({rank * experts, inputs}, element);
    auto typeB = RankedTensorType::get({outputs, rank * experts}, element);
    float bound = 1.0f / std::sqrt(static_cast<float>(inputs));
    auto add = [&](const std::string &name, format::Factor factor, RankedTensorType type, float bound) {
      const std::string ownName = target.ownName + std::string(format::factorSuffix(factor));
      if (isKnown)
        return addFactor(block, function, module.lookupSymbol<nn::ParameterOp>(name), ownName);
      nn::ParameterOp parameter = declareFactor(block, name, type, op->getLoc());
      parameter.setTrainable(true);
      parameter.setInitialBoundAttr(Builder(&getContext()).getF32FloatAttr(bound));
      if (target.isParameter)
        parameter.setAdapts(target.weight);
      return addFactor(block, function, parameter, ownName);
    };
    Value a = add(nameA, format::Factor::A, typeA, bound);
    Value b = add(nameB, format::Factor::B, typeB, 0.0f);

    OpBuilder builder(op);
    FloatAttr one = builder.getF32FloatAttr(1.0f);
    FloatAttr scale = builder.getF32FloatAttr(static_cast<float>(overRank() / static_cast<double>(rank)));
    Type hiddenType = nn::getTokensType(slots * rank, element);
    if (ofExperts) {
      Value ids = ofExperts.getIds();
      Value hidden =
          isPart ? Value(nn::LinearOp::create(builder, op->getLoc(), hiddenType, ofExperts.getX(), a, Value(), Value()))
                 : Value(nn::ExpertLinearOp::create(builder, op->getLoc(), hiddenType, ofExperts.getX(), a, ids,
                                                    Value(), Value(), one));
      Value low = nn::ExpertLinearOp::create(builder, op->getLoc(), ofExperts.getType(), hidden, b, ids,
                                             ofExperts.getAddend(), Value(), scale);
      ofExperts.getAddendMutable().assign(low);
      return success();
    }
    Value x = linear.getX();
    if (dropout != 0)
      x = nn::DropoutOp::create(builder, op->getLoc(), x.getType(), x, builder.getF32FloatAttr(dropout),
                                builder.getI64IntegerAttr(salts++));
    Value hidden = nn::LinearOp::create(builder, op->getLoc(), hiddenType, x, a, Value(), Value());
    Value low = nn::LinearOp::create(builder, op->getLoc(), linear.getType(), hidden, b, Value(), linear.getAddend(),
                                     scale.getValue().convertToFloat());
    linear.getAddendMutable().assign(low);
    return success();
  }

  int64_t salts = 0; // of the block's dropouts
};

} // namespace
} // namespace mebp
