// SPDX-License-Identifier: Apache-2.0
//
// Outlines the blocks of a model (MeBP, section 3: the training graph is cut into blocks with checkpoints between).
//
// 1. Find the narrow cuts of @main and the repeated run between them (NarrowCuts.h).
// 2. embed = what is before the run, a layer = one period, head = what is after it. Without a repetition (one layer):
//    embed ends before the first attention, the head begins with the trailing segment that has the last linear.
// 3. Each becomes a function (activation, parameters...) -> activation and a train.block that binds the parameters.
#include "compiler/partition/NarrowCuts.h"
#include "compiler/partition/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_PARTITIONBLOCKS
#include "compiler/partition/Passes.h.inc"

namespace {

using train::BlockKind;

struct BlockRange {
  BlockKind kind;
  size_t begin, end; // segments
};

bool contains(const Segment &segment, llvm::function_ref<bool(Operation *)> predicate) {
  return llvm::any_of(segment.ops, predicate);
}

SmallVector<BlockRange> chooseBlocks(ArrayRef<Segment> segments) {
  SmallVector<BlockRange> blocks;
  Repetition run = findRepetition(segments);
  size_t layersEnd = run.begin + run.period * run.count;
  if (run.count && run.begin > 0 && layersEnd < segments.size()) {
    blocks.push_back({BlockKind::Embed, 0, run.begin});
    for (size_t i = 0; i < run.count; ++i)
      blocks.push_back({BlockKind::Layer, run.begin + i * run.period, run.begin + (i + 1) * run.period});
    blocks.push_back({BlockKind::Head, layersEnd, segments.size()});
    return blocks;
  }
  size_t first = 0, last = segments.size() - 1;
  while (first < last && !contains(segments[first], [](Operation *op) { return isa<nn::AttentionOp>(op); }))
    ++first;
  while (last > first + 1 && !contains(segments[last - 1], [](Operation *op) { return isa<nn::LinearOp>(op); }))
    --last;
  blocks.push_back({BlockKind::Embed, 0, first});
  blocks.push_back({BlockKind::Layer, first, last});
  blocks.push_back({BlockKind::Head, last, segments.size()});
  return blocks;
}

/// The module path that an op came from, as the exporter's scope in its location says it; empty without one.
StringRef getScope(Operation *op) {
  auto node = dyn_cast<NameLoc>(op->getLoc());
  auto scope = node ? dyn_cast<NameLoc>(node.getChildLoc()) : NameLoc();
  return scope ? scope.getName().getValue() : StringRef();
}

/// The longest module path that all of these ops lie in.
std::string commonScope(ArrayRef<Operation *> ops) {
  SmallVector<StringRef> common;
  bool first = true;
  for (Operation *op : ops) {
    SmallVector<StringRef> parts;
    getScope(op).split(parts, '.', -1, /*KeepEmpty=*/false);
    if (first)
      common = parts;
    size_t length = 0;
    while (length < std::min(common.size(), parts.size()) && common[length] == parts[length])
      ++length;
    common.resize(length);
    first = false;
  }
  return llvm::join(common, ".");
}

struct PartitionBlocks : impl::PartitionBlocksBase<PartitionBlocks> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>("main");
    if (!function || function.getNumArguments() != 1 || function.getNumResults() != 1) {
      module.emitError("needs a function @main of the token ids that returns the logits");
      return signalPassFailure();
    }
    SmallVector<Segment> segments = findSegments(function);
    cuts = segments.size();
    if (segments.size() < 3) {
      function.emitError("has no narrow cuts: no place where a single activation passes from one layer to the next");
      return signalPassFailure();
    }
    Operation *last = segments.back().ops.back();
    auto head = dyn_cast<nn::LinearOp>(last);
    if (!head || head.getBias() || head.getAddend()) {
      last->emitError("the logits must come from a linear layer without a bias");
      return signalPassFailure();
    }

    Value input = function.getArgument(0);
    unsigned layer = 0;
    llvm::StringSet<> names;
    for (BlockRange range : chooseBlocks(segments)) {
      SmallVector<Operation *> ops;
      for (const Segment &segment : ArrayRef(segments).slice(range.begin, range.end - range.begin))
        ops.append(segment.ops.begin(), segment.ops.end());
      if (ops.empty()) {
        function.emitError("has nothing before its first layer: no embedding was found");
        return signalPassFailure();
      }
      std::string name = stringifyBlockKind(range.kind).str();
      if (range.kind == BlockKind::Layer) {
        std::string scope = commonScope(ops);
        name = scope.empty() || names.contains(scope) ? "layers." + std::to_string(layer) : scope;
        ++layer;
      }
      names.insert(name);
      outline(module, name, range.kind, ops, input, segments[range.end - 1].output);
      input = segments[range.end - 1].output;
    }
    layers = layer;
    function.erase();
  }

  void outline(ModuleOp module, StringRef name, BlockKind kind, ArrayRef<Operation *> ops, Value input, Value output) {
    SmallVector<Attribute> parameters;
    SmallVector<Type> types = {input.getType()};
    DenseMap<StringAttr, unsigned> arguments;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (auto read = operand.getDefiningOp<nn::ReadParameterOp>())
          if (arguments.try_emplace(read.getParameterAttr().getAttr(), types.size()).second) {
            parameters.push_back(read.getParameterAttr());
            types.push_back(operand.getType());
          }

    auto builder = OpBuilder::atBlockEnd(module.getBody());
    std::string functionName = (name + ".forward").str();
    auto block = train::BlockOp::create(builder, module.getLoc(), name, kind, builder.getArrayAttr(parameters),
                                        FlatSymbolRefAttr::get(builder.getContext(), functionName), {}, {}, {}, {});
    (void)block;
    auto function = func::FuncOp::create(builder, module.getLoc(), functionName,
                                         builder.getFunctionType(types, output.getType()));
    function.setPrivate();
    train::setArgumentRole(function, 0, kind == BlockKind::Embed ? train::role::tokenIds : train::role::activation);
    train::setResultRole(function, 0, kind == BlockKind::Head ? train::role::logits : train::role::activation);
    for (unsigned i = 1; i < types.size(); ++i) {
      train::setArgumentRole(function, i, train::role::parameter);
      function.setArgAttr(i, train::role::parameterAttribute, builder.getI64IntegerAttr(i - 1));
    }

    Block *body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    IRMapping mapping;
    mapping.map(input, body->getArgument(0));
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        if (auto read = operand.getDefiningOp<nn::ReadParameterOp>())
          mapping.map(operand, body->getArgument(arguments.lookup(read.getParameterAttr().getAttr())));
      builder.clone(*op, mapping);
    }
    func::ReturnOp::create(builder, output.getLoc(), mapping.lookup(output));
  }
};

} // namespace
} // namespace mebp
