// SPDX-License-Identifier: Apache-2.0
//
// Makes parameters of the model themselves trainable (mebpc --train full, and what a model names beside adapters).
//
// 1. A target is a pattern, in which * stands for anything, of a parameter's name, its alias or its layer's; all-linear
//    is the weight of every linear layer but the head.
// 2. What matches is trained: blocks that bind it ask for its gradient. It begins as it is stored, which has to be f32
//    or bf16: what a step changes is far below a quantised weight's grid. An optimizer that rounds at random takes
//    int8.
// 3. A target that matches nothing is an error, and so is a parameter that no block reads.
// 4. Where some layers alone are trained, a target means what is in them, or has a name as it stands.
// 5. What is `whole` is trained in any case, beside adapters, too: the head of a classifier.
#include "compiler/adapt/Layers.h"
#include "compiler/adapt/Passes.h"
#include "dialects/nn/Experts.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"

#include "format/tensor_names.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_TRAINPARAMETERS
#include "compiler/adapt/Passes.h.inc"

namespace {

struct TrainParameters : impl::TrainParametersBase<TrainParameters> {
  using TrainParametersBase::TrainParametersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Layers> chosen = Layers::choose(module, {lastLayers, {fromLayer, toLayer}});
    if (failed(chosen) || failed(chosen->checkTargets(module, targets, "--train-targets")) ||
        failed(collectReaders(module)))
      return signalPassFailure();
    layers = *chosen;
    for (const std::string &target : targets) {
      FailureOr<SmallVector<nn::ParameterOp>> matches = findMatches(module, target);
      if (failed(matches) || llvm::any_of(*matches, [&](nn::ParameterOp found) { return failed(train(found)); }))
        return signalPassFailure();
    }
    for (auto parameter : module.getOps<nn::ParameterOp>())
      if (parameter.getWhole() && failed(train(parameter)))
        return signalPassFailure();
  }

private:
  /// The arguments of forward functions that each parameter is bound to.
  LogicalResult collectReaders(ModuleOp module) {
    for (auto block : module.getOps<train::BlockOp>()) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return failure();
      for (BlockArgument argument : function.getArguments()) {
        train::PortAttr port = train::getArgumentPort(function, argument.getArgNumber());
        if (!port || port.getKind() != train::PortKind::Parameter)
          continue;
        StringRef name = block.getParameter(port.getName()).getValue();
        readers[name].push_back({function, argument.getArgNumber()});
        if (block.getKind() != train::BlockKind::Head && isWeightOfLinear(argument))
          linear.insert(name);
      }
    }
    return success();
  }

  static bool isWeightOfLinear(BlockArgument argument) {
    return llvm::any_of(argument.getUsers(), [&](Operation *user) {
      auto layer = dyn_cast<nn::LinearOp>(user);
      auto part = dyn_cast<nn::ExpertLinearOp>(user);
      return (layer && layer.getWeight() == argument) || (part && part.isPart() && part.getWeight() == argument);
    });
  }

  FailureOr<SmallVector<nn::ParameterOp>> findMatches(ModuleOp module, const std::string &target) {
    auto refuse = [&] { return module.emitError() << "--train-targets '" << target << "': "; };
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(target);
    if (!pattern)
      return refuse() << llvm::toString(pattern.takeError());
    auto matches = [&](StringRef name) { return pattern->match(name) || pattern->match(format::layerOf(name)); };
    SmallVector<nn::ParameterOp> found;
    llvm::SetVector<StringRef> available;
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      if (parameter.getNumber())
        continue; // of which ops are made
      StringRef name = parameter.getSymName();
      if (!layers.mayTrain(name, target) && !layers.mayTrain(format::layerOf(name), target))
        continue;
      available.insert(format::moduleOf(format::layerOf(name)));
      auto aliases = parameter.getAliases();
      bool isNamed =
          matches(name) || (aliases && llvm::any_of(aliases->getAsRange<StringAttr>(),
                                                    [&](StringAttr alias) { return matches(alias.getValue()); }));
      if (target == "all-linear" ? linear.contains(name) : isNamed)
        found.push_back(parameter);
    }
    if (found.empty())
      return refuse() << "matches no parameter" << layers.describe() << "; the layers' names end in "
                      << llvm::join(available, ", ");
    return found;
  }

  LogicalResult train(nn::ParameterOp parameter) {
    StringRef name = parameter.getSymName();
    auto refuse = [&] { return parameter.emitError() << "--train-targets: '" << name << "' "; };
    if (readers[name].empty())
      return refuse() << "is read by nothing, so it has no gradient; leave it out";
    if (parameter.getTransposed())
      return refuse() << "is stored as its transpose, which cannot be trained yet; leave it out";
    std::optional<format::WeightFormat> stored = parameter.getWeightFormat();
    const format::Storage storage = stored ? format::storageOf(*stored) : format::Storage::Unknown;
    if (!isFloat(storage) && !(storage == format::Storage::Int8 && changesInt8))
      return refuse() << "would be stored as " << (stored ? format::nameOf(*stored) : "nothing")
                      << ", which a step cannot change; give --weights " << (changesInt8 ? "int8, bf16" : "bf16")
                      << " or f32, --weights-for '" << format::layerOf(name) << (changesInt8 ? "=int8" : "=bf16")
                      << "', or train LoRA";
    parameter.setTrainable(true);
    for (auto [function, argument] : readers[name])
      train::setTrainable(function, argument);
    return success();
  }

  struct Reader {
    func::FuncOp function;
    unsigned argument;
  };
  Layers layers;
  llvm::StringMap<SmallVector<Reader>> readers;
  llvm::StringSet<> linear; // layers' weights
};

} // namespace
} // namespace mebp
