// SPDX-License-Identifier: Apache-2.0
//
// Adds PrivateLoRA (y = W x + B M A x; Wang et al., "PrivateLoRA for efficient privacy preserving LLM") to the linear
// layers that the targets name. A and B are drawn at random and frozen, M is trained and begins with zeros.
//
// Terms: u = x A^T and v = u M^T, of every row of tokens. They are all that the rest of a layer and M know of each
// other, so either may be in another place.
// 1. `compress`, a clone of the layer's forward as it was, gives u. What is adapted in one layer must not depend on
//    each other, so that all its u leave at once. With share_a, linear layers that read one value have one A and u.
// 2. `adapt` makes v of u by M.
// 3. The forward takes v from outside: y = linear(x, W addend linear(v, B)).
// A and B are drawn by format/random.h, each from a stream of its own, so that whoever knows the seed has the same.
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/Targets.h"

#include "format/tensor_names.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDPRIVATELORA
#include "compiler/adapt/Passes.h.inc"

namespace {

struct Settings {
  int64_t rankDown, rankUp; // columns of u, and of v
  bool shareA;
  uint64_t seed;
};

/// One layer's block.
class Layer {
public:
  Layer(train::BlockOp block, func::FuncOp forward, ArrayRef<AdaptedLinear> linears, const Settings &settings,
        uint64_t &stream)
      : block(block), forward(forward), linears(linears), settings(settings), stream(stream),
        builder(block.getContext()) {}

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
      nn::ParameterOp m = addMiddle(target, u.taken), b = addExpanded(target);
      m.setBetweenAttr(builder.getArrayAttr(
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
    for (auto [option, rank, width] : {std::tuple("--rank-down", settings.rankDown, weight.getDimSize(1)),
                                       std::tuple("--rank-up", settings.rankUp, weight.getDimSize(0))})
      if (rank > width)
        return linear.emitError() << option << " " << rank << " is above the width of '" << target.layer << "' ("
                                  << weight.getDimSize(0) << " x " << weight.getDimSize(1) << "): give at most "
                                  << width;
    bool isTwice = llvm::count_if(linears, [&](const AdaptedLinear &other) { return other.layer == target.layer; }) > 1;
    if (isTwice || SymbolTable::lookupNearestSymbolFrom(
                       block, builder.getStringAttr(format::factorOf(target.layer, format::Factor::M))))
      return linear.emitError() << "--lora-targets: '" << target.layer << "' is used in several places, which would "
                                << "need one adapter for all of them; leave it out";
    llvm::SetVector<Operation *> before;
    BackwardSliceOptions options;
    options.omitBlockArguments = true;
    (void)getBackwardSlice(linear.getOperation(), &before, options);
    for (const AdaptedLinear &other : linears)
      if (before.contains(other.linear))
        return linear.emitError() << "--lora-targets: '" << target.layer << "' reads what '" << other.layer
                                  << "' gives; private-lora adapts layers that can be asked at once, such as "
                                  << "q_proj,k_proj,v_proj";
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
    Type element = getElementTypeOrSelf(linear);
    nn::ParameterOp m =
        declareFactor(block, format::factorOf(target.layer, format::Factor::M),
                      RankedTensorType::get({settings.rankUp, settings.rankDown}, element), linear.getLoc());
    m.setTrainable(true);
    m.setInitialBoundAttr(builder.getF32FloatAttr(0.0f));
    Value factor = addFactor(block, adapts, m, nameOwn(target, format::Factor::M));
    builder.setInsertionPoint(adapts.getBody().front().getTerminator());
    Value v = nn::LinearOp::create(builder, linear.getLoc(), nn::getTokensType(settings.rankUp, element), u, factor,
                                   Value(), Value());
    adapted.push_back({v, target.ownName});
    return m;
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
  const Settings &settings;
  uint64_t &stream;
  OpBuilder builder;
  DenseMap<Value, Compressed> shared; // by what it is made of
  SmallVector<Given> compressed, adapted;
};

struct AddPrivateLora : impl::AddPrivateLoraBase<AddPrivateLora> {
  using AddPrivateLoraBase::AddPrivateLoraBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto [option, rank] : {std::pair("--rank-down", rankDown.getValue()), {"--rank-up", rankUp.getValue()}})
      if (std::string wrong = findWrongRank(option, rank); !wrong.empty()) {
        module.emitError() << wrong;
        return signalPassFailure();
      }
    Targets chosen(targets, "--lora-targets");
    const Settings settings = {rankDown, rankUp, shareA, seed};
    int64_t layer = 0;
    uint64_t stream = 0;
    for (auto block : llvm::to_vector(module.getOps<train::BlockOp>())) {
      func::FuncOp function = block.lookupFunction(format::forwardProgram);
      if (!function)
        return signalPassFailure();
      int64_t number = layer;
      bool isLayer = block.getKind() == train::BlockKind::Layer;
      layer += isLayer;
      if (!isLayer || number < firstLayer || (lastLayer >= 0 && number > lastLayer)) {
        chosen.leave(block, function);
        continue;
      }
      SmallVector<AdaptedLinear> linears = chosen.find(block, function);
      if (!linears.empty() && failed(Layer(block, function, linears, settings, stream).adapt()))
        return signalPassFailure();
      adapted += linears.size();
    }
    if (firstLayer >= layer || lastLayer >= layer) {
      module.emitError() << "--split-layers " << firstLayer.getValue() << "-" << lastLayer.getValue()
                         << ": the model has layers 0 to " << layer - 1;
      return signalPassFailure();
    }
    if (failed(chosen.checkAll(module)))
      return signalPassFailure();
    Builder builder(&getContext());
    module->setAttr("mebp.lora", builder.getDictionaryAttr({
                                     builder.getNamedAttr("rank", builder.getI64IntegerAttr(rankDown)),
                                     builder.getNamedAttr("alpha", builder.getF32FloatAttr(float(rankDown))),
                                     builder.getNamedAttr("target_modules", chosen.getModules(&getContext())),
                                 }));
  }
};

} // namespace
} // namespace mebp
