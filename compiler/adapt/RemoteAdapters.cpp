// SPDX-License-Identifier: Apache-2.0
#include "compiler/adapt/RemoteAdapters.h"

#include "compiler/Options.h"
#include "compiler/adapt/Targets.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace mebp {

namespace {

/// The options that set the columns of u and of v: one, where both have as many.
std::string downOf(const format::AdapterTraits &traits) { return std::string("--") + traits.options[0]; }
std::string upOf(const format::AdapterTraits &traits) { return std::string("--") + traits.options[traits.ranks - 1]; }

/// One layer's block.
class Layer {
public:
  Layer(train::BlockOp block, func::FuncOp forward, ArrayRef<AdaptedLinear> linears,
        const format::AdapterTraits &traits, const RemoteSettings &settings, const Middle &middle, uint64_t &stream)
      : block(block), forward(forward), linears(linears), traits(traits), settings(settings), middle(middle),
        stream(stream), builder(block.getContext()) {}

  LogicalResult adapt() {
    for (const AdaptedLinear &target : linears)
      if (failed(check(target)))
        return failure();
    builder.setInsertionPoint(forward);
    compress = cast<func::FuncOp>(builder.clone(*forward));
    compress.setName((block.getSymName() + "." + StringRef(format::compressProgram)).str());
    adapts = func::FuncOp::create(builder, forward.getLoc(),
                                  (block.getSymName() + "." + StringRef(format::adaptProgram)).str(),
                                  builder.getFunctionType({}, {}));
    adapts.setPrivate();
    builder.setInsertionPointToEnd(adapts.addEntryBlock());
    func::ReturnOp::create(builder, forward.getLoc());
    SmallVector<nn::LinearOp> clones;
    for (const AdaptedLinear &target : linears)
      clones.push_back(getClone(target.linear));

    for (auto [target, clone] : llvm::zip(linears, clones)) {
      Compressed &u = shared[settings.shareA ? clone.getX() : clone.getResult()];
      if (!u.taken)
        u = addCompressed(target, clone);
      nn::ParameterOp trained = addMiddle(target, u.taken), b = addExpanded(target);
      trained.setBetweenAttr(builder.getArrayAttr(
          {FlatSymbolRefAttr::get(u.a.getSymNameAttr()), FlatSymbolRefAttr::get(b.getSymNameAttr())}));
    }
    finish(compress, compressed, ".u");
    finish(adapts, adapted, ".v");
    block.setProgram(format::compressProgram, compress.getSymName());
    block.setProgram(format::adaptProgram, adapts.getSymName());
    return success();
  }

private:
  struct Given {
    Value value;
    std::string ownName;
  };
  struct Compressed {
    Value taken; // u, as adapt takes it
    nn::ParameterOp a;
  };

  LogicalResult check(const AdaptedLinear &target) {
    nn::LinearOp linear = target.linear;
    auto weight = cast<RankedTensorType>(linear.getWeight().getType());
    for (auto [option, rank, width] : {std::tuple(downOf(traits), settings.rankDown, weight.getDimSize(1)),
                                       std::tuple(upOf(traits), settings.rankUp, weight.getDimSize(0))})
      if (rank > width)
        return linear.emitError() << option << " " << rank << " is above the width of '" << target.layer << "' ("
                                  << weight.getDimSize(0) << " x " << weight.getDimSize(1) << "): give at most "
                                  << width;
    bool isTwice = llvm::count_if(linears, [&](const AdaptedLinear &other) { return other.layer == target.layer; }) > 1;
    if (isTwice || SymbolTable::lookupNearestSymbolFrom(
                       block, builder.getStringAttr(format::factorOf(target.layer, traits.trained))))
      return linear.emitError() << "--lora-targets: '" << target.layer << "' is used in several places, which would "
                                << "need one adapter for all of them; leave it out";
    llvm::SetVector<Operation *> before;
    BackwardSliceOptions options;
    options.omitBlockArguments = true;
    (void)getBackwardSlice(linear.getOperation(), &before, options);
    for (const AdaptedLinear &other : linears)
      if (before.contains(other.linear))
        return linear.emitError() << "--lora-targets: '" << target.layer << "' reads what '" << other.layer
                                  << "' gives; " << traits.name << " adapts layers that can be asked at once, such as "
                                  << traits.targets;
    return success();
  }

  nn::LinearOp getClone(nn::LinearOp linear) {
    auto number = std::distance(linear->getBlock()->begin(), linear->getIterator());
    return cast<nn::LinearOp>(*std::next(compress.getBody().front().begin(), number));
  }

  /// A frozen factor, drawn at random.
  nn::ParameterOp declareDrawn(const AdaptedLinear &target, format::Factor factor, int64_t rows, int64_t columns) {
    nn::LinearOp linear = target.linear;
    nn::ParameterOp parameter =
        declareFactor(block, format::factorOf(target.layer, factor),
                      RankedTensorType::get({rows, columns}, getElementTypeOrSelf(linear)), linear.getLoc());
    parameter.setStorageAttr(builder.getStringAttr("bf16"));
    parameter.setDrawnAttr(nn::DrawnAttr::get(builder.getContext(), settings.seed, stream++));
    return parameter;
  }

  std::string nameOwn(const AdaptedLinear &target, format::Factor factor) {
    return target.ownName + std::string(format::factorSuffix(factor));
  }

  Value addInput(func::FuncOp function, int64_t features, Type element, const std::string &name) {
    unsigned index = 0; // behind the flows and others of its kind, before the parameters
    while (index < function.getNumArguments() &&
           train::getArgumentPort(function, index).getKind() != train::PortKind::Parameter)
      ++index;
    (void)function.insertArgument(index, nn::getTokensType(features, element), {}, function.getLoc());
    train::setArgumentPort(function, index, train::PortKind::Remote, name);
    return function.getArgument(index);
  }

  Compressed addCompressed(const AdaptedLinear &target, nn::LinearOp clone) {
    Type element = getElementTypeOrSelf(clone);
    nn::ParameterOp a = declareDrawn(target, format::Factor::A, settings.rankDown, nn::features(clone.getX()));
    Value factor = addFactor(block, compress, a, nameOwn(target, format::Factor::A));
    builder.setInsertionPoint(clone);
    Value u = nn::LinearOp::create(builder, clone.getLoc(), nn::getTokensType(settings.rankDown, element), clone.getX(),
                                   factor, Value(), Value());
    compressed.push_back({u, target.ownName});
    return {addInput(adapts, settings.rankDown, element, target.ownName + ".u"), a};
  }

  nn::ParameterOp addMiddle(const AdaptedLinear &target, Value u) {
    nn::LinearOp linear = target.linear;
    nn::ParameterOp parameter =
        declareFactor(block, format::factorOf(target.layer, traits.trained),
                      RankedTensorType::get(middle.shape, getElementTypeOrSelf(linear)), linear.getLoc());
    parameter.setTrainable(true);
    parameter.setInitialBoundAttr(builder.getF32FloatAttr(0.0f));
    Value factor = addFactor(block, adapts, parameter, nameOwn(target, traits.trained));
    builder.setInsertionPoint(adapts.getBody().front().getTerminator());
    adapted.push_back({middle.build(builder, linear.getLoc(), u, factor), target.ownName});
    return parameter;
  }

  nn::ParameterOp addExpanded(const AdaptedLinear &target) {
    nn::LinearOp linear = target.linear;
    nn::ParameterOp b = declareDrawn(target, format::Factor::B, nn::features(linear.getResult()), settings.rankUp);
    Value v = addInput(forward, settings.rankUp, getElementTypeOrSelf(linear), target.ownName + ".v");
    Value factor = addFactor(block, forward, b, nameOwn(target, format::Factor::B));
    builder.setInsertionPoint(linear);
    Value added =
        nn::LinearOp::create(builder, linear.getLoc(), linear.getType(), v, factor, Value(), linear.getAddend());
    linear.getAddendMutable().assign(added);
    return b;
  }

  /// Returns these and nothing else; what they do not depend on goes.
  void finish(func::FuncOp function, ArrayRef<Given> gives, StringRef suffix) {
    auto values = llvm::to_vector(llvm::map_range(gives, [](const Given &given) { return given.value; }));
    function.getBody().front().getTerminator()->setOperands(values);
    IRRewriter rewriter(builder.getContext());
    (void)runRegionDCE(rewriter, function->getRegions());
    function.setResAttrsAttr({});
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), ValueRange(values).getTypes()));
    llvm::BitVector unread(function.getNumArguments());
    for (BlockArgument argument : function.getArguments())
      if (argument.use_empty())
        unread.set(argument.getArgNumber());
    (void)function.eraseArguments(unread);
    for (auto [index, given] : llvm::enumerate(gives))
      train::setResultPort(function, index, train::PortKind::Remote, given.ownName + suffix.str());
  }

  train::BlockOp block;
  func::FuncOp forward, compress, adapts;
  ArrayRef<AdaptedLinear> linears;
  const format::AdapterTraits &traits;
  const RemoteSettings &settings;
  const Middle &middle;
  uint64_t &stream;
  OpBuilder builder;
  DenseMap<Value, Compressed> shared; // by what it is made of
  SmallVector<Given> compressed, adapted;
};

} // namespace

FailureOr<unsigned> addRemoteAdapters(ModuleOp module, const format::AdapterTraits &traits,
                                      const RemoteSettings &settings, const Middle &middle) {
  for (auto [option, rank] : {std::pair(downOf(traits), settings.rankDown), {upOf(traits), settings.rankUp}})
    if (std::string wrong = findWrongRank(option.c_str(), rank); !wrong.empty())
      return module.emitError() << wrong;
  Targets chosen(settings.targets, "--lora-targets");
  int64_t layer = 0;
  uint64_t stream = 0;
  unsigned adapted = 0;
  for (auto block : llvm::to_vector(module.getOps<train::BlockOp>())) {
    func::FuncOp function = block.lookupFunction(format::forwardProgram);
    if (!function)
      return failure();
    int64_t number = layer;
    bool isLayer = block.getKind() == train::BlockKind::Layer;
    layer += isLayer;
    if (!isLayer || number < settings.firstLayer || (settings.lastLayer >= 0 && number > settings.lastLayer)) {
      chosen.leave(block, function);
      continue;
    }
    SmallVector<AdaptedLinear> linears = chosen.find(block, function);
    if (!linears.empty() && failed(Layer(block, function, linears, traits, settings, middle, stream).adapt()))
      return failure();
    adapted += linears.size();
  }
  if (settings.firstLayer >= layer || settings.lastLayer >= layer)
    return module.emitError() << "--split-layers " << settings.firstLayer << "-" << settings.lastLayer
                              << ": the model has layers 0 to " << layer - 1;
  if (failed(chosen.checkAll(module)))
    return failure();
  Builder builder(module.getContext());
  module->setAttr("mebp.lora", builder.getDictionaryAttr({
                                   builder.getNamedAttr("rank", builder.getI64IntegerAttr(settings.rankDown)),
                                   builder.getNamedAttr("alpha", builder.getF32FloatAttr(float(settings.rankDown))),
                                   builder.getNamedAttr("target_modules", chosen.getModules(module.getContext())),
                               }));
  return adapted;
}

} // namespace mebp
