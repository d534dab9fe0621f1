// SPDX-License-Identifier: Apache-2.0
//
// Outlines the blocks of a model (MeBP, section 3: the training graph is cut into blocks with checkpoints between).
//
// 1. Let layers compute again what they take of the ids (InputsOfLayers.h). Then find the narrow cuts of @main and the
//    repeated run between them (NarrowCuts.h).
// 2. Before the run, embed ends before the first linear layer or attention. After it, the head begins behind the last
//    one but its own linear layer. Layers are between: each period, and what is left at either side of the run.
// 3. Where one of these reads other positions in several segments, as periods of local and global attention do, it is
//    cut before each of them, so that a layer has one. A cut lies as far before its segment as the part begins before
//    the first.
// 4. Each becomes a function (flow, parameters...) -> flow and a train.block that binds the parameters. To the block a
//    parameter is known by its name without the scope that all of the block lies in. What several layers share goes out
//    of the one that makes it and into the others; the ids go into whichever reads them.
#include "compiler/partition/InputsOfLayers.h"
#include "compiler/partition/NarrowCuts.h"
#include "compiler/partition/Passes.h"
#include "dialects/nn/Activations.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Locations.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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

/// Whether a segment has a product, whose weight may be trained, or reads other positions. Only layers can do so: the
/// embedding has no backward function, and the head runs on tiles of rows.
bool belongsToLayer(const Segment &segment) {
  return llvm::any_of(segment.ops, [](Operation *op) { return nn::isProduct(op) || nn::mixesRows(op); });
}

/// Adds the layers that segments from `begin` to `end` make.
void addLayers(ArrayRef<Segment> segments, size_t begin, size_t end, SmallVectorImpl<BlockRange> &blocks) {
  std::optional<size_t> lead; // of a layer before the segment that reads other positions
  size_t first = begin;
  for (size_t segment = begin; segment < end; ++segment) {
    if (!llvm::any_of(segments[segment].ops, nn::mixesRows))
      continue;
    if (!lead)
      lead = segment - begin;
    else if (segment - *lead > first) {
      blocks.push_back({BlockKind::Layer, first, segment - *lead});
      first = segment - *lead;
    }
  }
  if (first < end)
    blocks.push_back({BlockKind::Layer, first, end});
}

SmallVector<BlockRange> chooseBlocks(ArrayRef<Segment> segments) {
  size_t first = 0, last = segments.size() - 1;
  while (first < last && !belongsToLayer(segments[first]))
    ++first;
  while (last > first && !belongsToLayer(segments[last - 1]))
    --last;
  Repetition run = findRepetition(segments);
  if (!run.count || run.begin == 0 || run.begin + run.period * run.count >= segments.size())
    run = {first, last - first, 1};

  size_t runEnd = run.begin + run.period * run.count;
  size_t layersBegin = std::min(first, run.begin), layersEnd = std::max(last, runEnd);
  SmallVector<BlockRange> blocks = {{BlockKind::Embed, 0, layersBegin}};
  addLayers(segments, layersBegin, run.begin, blocks);
  for (size_t begin = run.begin; begin < runEnd; begin += run.period)
    addLayers(segments, begin, begin + run.period, blocks);
  addLayers(segments, runEnd, layersEnd, blocks);
  blocks.push_back({BlockKind::Head, layersEnd, segments.size()});
  return blocks;
}

/// The longest module path that all of these ops lie in, but for those of the model that `again` computes.
std::string commonScope(ArrayRef<Operation *> ops, const DenseSet<Operation *> &again) {
  SmallVector<StringRef> common;
  bool first = true;
  for (Operation *op : ops) {
    if (again.contains(op))
      continue;
    SmallVector<StringRef> parts;
    nn::getScope(op->getLoc()).split(parts, '.', -1, /*KeepEmpty=*/false);
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
    if (!function || function.isExternal() || function.getNumArguments() != 1 || function.getNumResults() != 1) {
      module.emitError("needs a function @main of the token ids that returns the logits");
      return signalPassFailure();
    }
    again = computeInputsAgain(function);
    SmallVector<Segment> segments = findSegments(function, again);
    cuts = segments.size();
    if (segments.size() < 3) {
      function.emitError("has no narrow cuts: no place where a single activation passes from one layer to the next");
      return signalPassFailure();
    }
    Operation *last = segments.back().ops.back();
    // Of the head, a softcap is a segment of its own.
    if (auto softcap = dyn_cast<nn::SoftcapOp>(last); softcap && segments.size() > 3) {
      segments[segments.size() - 2].ops.append(segments.back().ops);
      segments[segments.size() - 2].output = segments.back().output;
      segments.pop_back();
      last = softcap.getX().getDefiningOp();
    }
    auto head = dyn_cast_or_null<nn::LinearOp>(last);
    if (!head || head.getAddend()) {
      segments.back().ops.back()->emitError("the logits must come from a linear layer, with or without a softcap");
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
        function.emitError() << "has no " << stringifyBlockKind(range.kind)
                             << ": expected an embedding, then layers of "
                             << "linear layers and attention, then the head's linear layer";
        return signalPassFailure();
      }
      Value output = segments[range.end - 1].output;
      if (range.kind == BlockKind::Layer && output.getType() != input.getType()) {
        // One buffer flows through all blocks.
        ops.back()->emitError() << "gives " << nn::features(output) << " features a token where " << nn::features(input)
                                << " came in; mebp trains only models that are as wide from the embedding to the head";
        return signalPassFailure();
      }
      std::string name = stringifyBlockKind(range.kind).str();
      if (range.kind == BlockKind::Layer) {
        std::string scope = commonScope(ops, again);
        name = scope.empty() || names.contains(scope) ? "layers." + std::to_string(layer) : scope;
        ++layer;
      }
      names.insert(name);
      if (auto parameter = module.lookupSymbol<nn::ParameterOp>(name)) {
        parameter.emitError() << "parameter '" << parameter.getSymName() << "' has the name of a block; rename it";
        return signalPassFailure();
      }
      outline(module, name, range.kind, ops, input, output);
      input = output;
    }
    layers = layer;
    function.erase();
  }

  void outline(ModuleOp module, StringRef name, BlockKind kind, ArrayRef<Operation *> ops, Value input, Value output) {
    const std::string scope = commonScope(ops, again);
    SmallVector<Attribute> names, parameters;
    Taken taken;
    if (kind == BlockKind::Embed)
      taken.add(input, train::PortKind::Batch, format::idsPort);
    else
      taken.add(input, train::PortKind::Flow, format::hiddenFlow);
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (auto made = shared.find(operand); made != shared.end() && !llvm::is_contained(ops, operand.getDefiningOp()))
          taken.add(operand, train::PortKind::Shared, made->second);
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (isa<BlockArgument>(operand))
          taken.add(operand, train::PortKind::Batch, format::idsPort);
    // A weight that is read in several places is one parameter.
    DenseMap<StringAttr, Value> first;
    DenseMap<Value, Value> sameAs;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (auto read = operand.getDefiningOp<nn::ReadParameterOp>()) {
          auto [entry, isNew] = first.try_emplace(read.getParameterAttr().getAttr(), operand);
          sameAs[operand] = entry->second;
          if (!isNew)
            continue;
          names.push_back(makeOwnName(read.getParameterAttr(), scope, names));
          parameters.push_back(read.getParameterAttr());
          taken.add(operand, train::PortKind::Parameter, cast<StringAttr>(names.back()).getValue());
        }

    auto builder = OpBuilder::atBlockEnd(module.getBody());
    std::string functionName = (name + ".forward").str();
    auto forward =
        builder.getNamedAttr(format::forwardProgram, FlatSymbolRefAttr::get(builder.getContext(), functionName));
    train::BlockOp::create(builder, module.getLoc(), name, kind, builder.getArrayAttr(names),
                           builder.getArrayAttr(parameters), builder.getDictionaryAttr(forward), DictionaryAttr());
    SmallVector<Value> given = {output};
    for (Operation *op : ops)
      llvm::copy_if(op->getResults(), std::back_inserter(given), [&](Value result) {
        return isShared(result) &&
               llvm::any_of(result.getUsers(), [&](Operation *user) { return !llvm::is_contained(ops, user); });
      });
    auto function = func::FuncOp::create(
        builder, module.getLoc(), functionName,
        builder.getFunctionType(TypeRange(ValueRange(taken.values)), TypeRange(ValueRange(given))));
    function.setPrivate();
    for (auto [index, port] : llvm::enumerate(taken.ports))
      train::setArgumentPort(function, index, port.first, port.second);
    if (kind == BlockKind::Head)
      train::setResultPort(function, 0, train::PortKind::Result, format::logitsPort);
    else
      train::setResultPort(function, 0, train::PortKind::Flow, format::hiddenFlow);
    for (auto [index, value] : llvm::enumerate(ArrayRef(given).drop_front())) {
      const std::string name = std::string(format::sharedPrefix) + std::to_string(shared.size());
      shared[value] = name;
      train::setResultPort(function, index + 1, train::PortKind::Shared, name);
    }

    Block *body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    IRMapping mapping;
    for (auto [value, argument] : llvm::zip(taken.values, body->getArguments()))
      mapping.map(value, argument);
    for (auto [read, other] : sameAs)
      mapping.map(read, mapping.lookup(other));
    for (Operation *op : ops)
      builder.clone(*op, mapping);
    func::ReturnOp::create(builder, output.getLoc(),
                           llvm::map_to_vector(given, [&](Value value) { return mapping.lookup(value); }));
  }

  /// What a block's function takes, each value once.
  struct Taken {
    SmallVector<Value> values;
    SmallVector<std::pair<train::PortKind, std::string>> ports;

    void add(Value value, train::PortKind kind, std::string_view name) {
      if (llvm::is_contained(values, value))
        return;
      values.push_back(value);
      ports.push_back({kind, std::string(name)});
    }
  };
  DenseSet<Operation *> again;         // what layers take of the ids
  DenseMap<Value, std::string> shared; // what blocks so far have given to later ones, and its name

  static StringAttr makeOwnName(FlatSymbolRefAttr parameter, StringRef scope, ArrayRef<Attribute> taken) {
    StringRef name = parameter.getValue();
    if (name.consume_front(scope))
      name.consume_front(".");
    auto own = StringAttr::get(parameter.getContext(), name);
    return name.empty() || llvm::is_contained(taken, own) ? parameter.getAttr() : own;
  }
};

} // namespace
} // namespace mebp
