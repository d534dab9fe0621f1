// SPDX-License-Identifier: Apache-2.0
//
// Trains the rows that new tokens have in the embedding and in the head (mebp export --train-tokens).
//
// Terms: R (k x hidden) are the rows of k new tokens, which follow one another; S (vocabulary x k) has a 1 where a
// token is one of them, and is part of what the compiler makes.
// 1. The table has zeros in place of the rows, so an embedding is W[ids] + S[ids] R, and logits are x Wᵀ + (x Rᵀ) Sᵀ.
// 2. R is a trainable parameter that begins as the rows that the export has. What is trained are the rows themselves,
//    as PEFT's trainable_token_indices has them, so reading an adapter again gives the same bits.
// 3. An embedding that is tied to the head has one R, whose gradient is the sum of both.
// It comes after LoRA, which would take products with S for layers.
#include "compiler/adapt/Passes.h"
#include "compiler/adapt/Targets.h"
#include "dialects/nn/Embeddings.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Parameters.h"

#include "format/tensor_names.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_ADDTOKENROWS
#include "compiler/adapt/Passes.h.inc"

namespace {

struct AddTokenRows : impl::AddTokenRowsBase<AddTokenRows> {
  using AddTokenRowsBase::AddTokenRowsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto tokens = module->getAttrOfType<DenseI64ArrayAttr>("mebp.new_tokens");
    if (!tokens)
      return;
    first = tokens[0];
    count = tokens[1];
    if (beside != "lora") {
      module.emitError() << "--train-tokens trains rows of new tokens beside LoRA, which " << beside.getValue()
                         << " is not; leave one of them out";
      return signalPassFailure();
    }
    for (auto block : llvm::to_vector(module.getOps<train::BlockOp>()))
      if (block.getKind() != train::BlockKind::Layer && failed(addTo(block)))
        return signalPassFailure();
    if (!isRead) {
      module.emitError() << "--train-tokens: the model has no table with rows of its tokens; leave it out";
      return signalPassFailure();
    }
  }

private:
  LogicalResult addTo(train::BlockOp block) {
    func::FuncOp function = block.lookupFunction(format::forwardProgram);
    if (!function)
      return failure();
    const bool isHead = block.getKind() == train::BlockKind::Head;
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front().without_terminator())) {
      auto embedding = dyn_cast<nn::EmbeddingOp>(op);
      auto linear = isHead ? dyn_cast<nn::LinearOp>(op) : nn::LinearOp();
      if (!embedding && !linear)
        continue;
      auto weight = dyn_cast<BlockArgument>(op.getOperand(1));
      nn::ParameterOp table = weight ? parameterOf(block, function, weight) : nn::ParameterOp();
      if (!table || !hasRowsOfTokens(table))
        continue;
      if (embedding && embedding.getPart())
        return op.emitError() << "--train-tokens: '" << table.getSymName() << "' is read in parts, a part for each "
                              << "layer, which cannot be trained yet; leave it out";
      if (linear && linear.getAddend())
        return op.emitError() << "--train-tokens and --lora-targets both adapt the head '"
                              << format::layerOf(table.getSymName()) << "'; leave it out of --lora-targets";
      StringRef ownName = train::getArgumentPort(function, weight.getArgNumber()).getName();
      FailureOr<nn::ParameterOp> declared = declareRows(block, table);
      if (failed(declared))
        return failure();
      Value rows = addFactor(block, function, *declared,
                             std::string(format::layerOf(ownName)) + std::string(format::tokenRowsSuffix));
      Value slots = bindSlots(block, function, table);
      if (embedding)
        add(embedding, rows, slots);
      else
        add(linear, rows, slots);
      isRead = true;
      ++adapted;
    }
    return success();
  }

  static nn::ParameterOp parameterOf(train::BlockOp block, func::FuncOp function, BlockArgument argument) {
    train::PortAttr port = train::getArgumentPort(function, argument.getArgNumber());
    if (!port || port.getKind() != train::PortKind::Parameter)
      return {};
    StringRef name = block.getParameter(port.getName()).getValue();
    return block->getParentOfType<ModuleOp>().lookupSymbol<nn::ParameterOp>(name);
  }

  bool hasRowsOfTokens(nn::ParameterOp parameter) {
    RankedTensorType type = parameter.getTensorType();
    auto vocabulary = getOperation()->getAttrOfType<IntegerAttr>("mebp.vocabulary");
    return type.getRank() == 2 && !parameter.getTransposed() && vocabulary && type.getDimSize(0) == vocabulary.getInt();
  }

  /// PEFT finds a table that is tied to the head by the embedding's name, which lies deeper in the model.
  static StringRef nameOf(nn::ParameterOp table) {
    StringRef name = table.getSymName();
    if (auto aliases = table.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>())
        if (alias.getValue().count('.') > name.count('.'))
          name = alias.getValue();
    return name;
  }

  /// R of this table: of a tied one the same for both blocks.
  FailureOr<nn::ParameterOp> declareRows(train::BlockOp block, nn::ParameterOp table) {
    const std::string name = format::tokenRowsOf(format::layerOf(nameOf(table)));
    if (auto known = getOperation().lookupSymbol<nn::ParameterOp>(name))
      return known;
    if (first + count > table.getTensorType().getDimSize(0))
      return table.emitError() << "'" << table.getSymName() << "' lacks rows of new tokens; export the model again";
    auto type = RankedTensorType::get({count, table.getTensorType().getDimSize(1)}, Float32Type::get(&getContext()));
    nn::ParameterOp rows = declareFactor(block, name, type, table.getLoc());
    rows.setTrainable(true);
    rows.setStorage(format::nameOf(format::WeightFormat::F32));
    rows.setRowsOf(table.getSymName());
    if (table.getData() || table.getPieces()) { // else both are drawn
      auto place = findPlace(table);
      if (!place)
        return table.emitError() << "'" << table.getSymName() << "' has no rows of new tokens in a place of their own; "
                                 << "export the model again";
      rows.setDataAttr(place);
    }
    table.setApart(SmallVector<int64_t>{first, count});
    return rows;
  }

  /// Where the export has the rows.
  nn::ExternalDataAttr findPlace(nn::ParameterOp table) {
    int64_t row = 0;
    const uint64_t columns = table.getTensorType().getDimSize(1);
    if (!table.getPieces())
      return {};
    for (auto place : table.getPieces()->getAsRange<nn::ExternalDataAttr>()) {
      auto rows = static_cast<int64_t>(place.getBytes() / (columns * (place.getElement() == "f32" ? 4 : 2)));
      if (row == first && rows == count)
        return place;
      row += rows;
    }
    return {};
  }

  /// S, which all tables share.
  Value bindSlots(train::BlockOp block, func::FuncOp function, nn::ParameterOp table) {
    const std::string name = std::string(format::partPrefix) + "new_tokens";
    auto slots = getOperation().lookupSymbol<nn::ParameterOp>(name);
    if (!slots) {
      const int64_t vocabulary = table.getTensorType().getDimSize(0);
      auto type = RankedTensorType::get({vocabulary, count}, Float32Type::get(&getContext()));
      std::vector<float> values(static_cast<size_t>(vocabulary * count));
      for (int64_t token = 0; token < count; ++token)
        values[static_cast<size_t>((first + token) * count + token)] = 1.0f;
      slots = declareFactor(block, name, type, table.getLoc());
      slots.setStorage(format::nameOf(format::WeightFormat::BF16)); // which has 0 and 1
      slots.setInlineDataAttr(DenseElementsAttr::get(type, llvm::ArrayRef(values)));
    }
    return addFactor(block, function, slots, "new_tokens");
  }

  void add(nn::EmbeddingOp embedding, Value rows, Value slots) {
    OpBuilder builder(embedding->getContext());
    builder.setInsertionPointAfter(embedding);
    Type type = nn::getTokensType(count, getElementTypeOrSelf(embedding.getType()));
    Value chosen = nn::EmbeddingOp::create(builder, embedding.getLoc(), type, embedding.getIds(), slots, Value());
    auto sum = nn::LinearInputGradientOp::create(builder, embedding.getLoc(), embedding.getType(), chosen, rows,
                                                 embedding.getResult());
    embedding.getResult().replaceAllUsesExcept(sum.getResult(), sum);
  }

  void add(nn::LinearOp head, Value rows, Value slots) {
    OpBuilder builder(head);
    Type type = nn::getTokensType(count, getElementTypeOrSelf(head.getType()));
    Value own = nn::LinearOp::create(builder, head.getLoc(), type, head.getX(), rows, Value(), Value());
    Value spread = nn::LinearOp::create(builder, head.getLoc(), head.getType(), own, slots, Value(), Value(),
                                        head.getAlpha().convertToFloat());
    head.getAddendMutable().assign(spread);
  }

  int64_t first = 0, count = 0;
  bool isRead = false; // any of the rows
};

} // namespace
} // namespace mebp
