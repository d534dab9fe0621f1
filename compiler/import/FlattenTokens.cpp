// SPDX-License-Identifier: Apache-2.0
//
//  1. Parameters that linear layers read as in by out are declared out by in, `transposed`.
//  2. Node by node: views change layouts, other nodes become kernels of their operands' flat values, if those lie as
//     the kernel reads them.
//  3. The argument and the result become [batch, sequence, features] of any batch and sequence; the nodes go.
#include "compiler/import/FlattenTokens.h"
#include "compiler/import/OnnxMatchers.h"
#include "compiler/import/OnnxNode.h"
#include "compiler/import/Passes.h"
#include "dialects/nn/Linear.h"
#include "dialects/nn/Locations.h"
#include "dialects/nn/Parameters.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mebp;
using mebp::nn::features;

namespace mebp {
#define GEN_PASS_DEF_FLATTENTOKENS
#include "compiler/import/Passes.h.inc"
} // namespace mebp

namespace {

struct FlattenTokens : mebp::impl::FlattenTokensBase<FlattenTokens> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal()) {
      getOperation().emitError("has no function @main to flatten");
      return signalPassFailure();
    }
    TokenFlattener flattener(main);
    if (failed(flattener.run()))
      return signalPassFailure();
    views += flattener.getViews();
  }
};

} // namespace

InFlightDiagnostic mebp::emitUnsupported(nn::OnnxOp node) {
  InFlightDiagnostic diagnostic = node->emitError();
  // importOnnx's modules are at line 0 of their file; others are text.
  auto file = dyn_cast<FileLineColLoc>(node->getParentOfType<ModuleOp>().getLoc());
  if (file && file.getLine() == 0)
    diagnostic << file.getFilename().getValue() << ": ";
  if (StringRef name = nn::getNodeName(node.getLoc()); !name.empty())
    diagnostic << "node '" << name << "': ";
  diagnostic << "ONNX op '" << node.getOpType() << "' is not supported here: ";
  return diagnostic;
}

LogicalResult TokenFlattener::run() {
  if (failed(flattenArgument()) || failed(storeWeightsOutByIn()))
    return failure();
  // Attention that was not raised is named by its softmax, not by the first of its many nodes.
  for (auto node : main.getOps<nn::OnnxOp>()) {
    if (node.getOpType() == "TopK" || node.getOpType() == "ArgMax")
      return emitUnsupported(node) << "it does not choose experts as any router that is known";
    if (node.getOpType() == "Softmax")
      return emitUnsupported(node)
             << "it is not causal attention, softmax(scale q kᵀ + mask) v, with a mask that depends on "
                "positions alone; export without padding masks, dropout and soft-capping";
  }
  for (Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
    builder.setInsertionPoint(&op);
    LogicalResult result = success();
    if (auto node = dyn_cast<nn::OnnxOp>(op))
      result = flattenNode(node);
    else if (auto terminator = dyn_cast<func::ReturnOp>(op))
      result = flattenReturn(terminator);
    if (failed(result))
      return failure();
  }
  eraseNodes();
  return success();
}

LogicalResult TokenFlattener::flattenArgument() {
  auto type =
      main.getNumArguments() == 1 ? dyn_cast<RankedTensorType>(main.getArgument(0).getType()) : RankedTensorType();
  if (!type || type.getRank() != 2 || !type.hasStaticShape() || !type.getElementType().isInteger())
    return main.emitError("needs one argument, token ids of static shape [batch, sequence]");
  batch = type.getDimSize(0);
  sequence = type.getDimSize(1);
  Block &body = main.getBody().front();
  auto flat = nn::getTokensType(1, builder.getI32Type());
  Value ids = body.addArgument(flat, body.getArgument(0).getLoc());
  tokens[body.getArgument(0)] = {ids, AxisLayout::identity(type.getShape())};
  return success();
}

LogicalResult TokenFlattener::storeWeightsOutByIn() {
  llvm::StringSet<> transposed, straight;
  for (auto read : main.getOps<nn::ReadParameterOp>())
    for (OpOperand &use : read.getResult().getUses()) {
      auto linear = dyn_cast<nn::OnnxOp>(use.getOwner());
      bool isWeight = linear && use.getOperandNumber() == 1 &&
                      (linear.getOpType() == "Linear" || linear.getOpType() == "ExpertLinear");
      auto flag = isWeight ? dyn_cast_or_null<BoolAttr>(getAttribute(linear, "transposed")) : BoolAttr();
      (flag && flag.getValue() ? transposed : straight).insert(read.getParameter());
    }
  auto module = main->getParentOfType<ModuleOp>();
  for (auto read : main.getOps<nn::ReadParameterOp>()) {
    StringRef name = read.getParameter();
    if (!transposed.contains(name))
      continue;
    if (straight.contains(name))
      return read.emitError() << "parameter '" << name << "' is read both out by in and in by out; export it twice";
    auto stored = cast<RankedTensorType>(read.getResult().getType());
    SmallVector<int64_t> shape(stored.getShape()); // [in, out], or those of experts
    std::swap(shape[shape.size() - 2], shape.back());
    auto type = RankedTensorType::get(shape, stored.getElementType());
    read.getResult().setType(type);
    if (auto parameter = module.lookupSymbol<nn::ParameterOp>(name)) {
      parameter.setType(type);
      parameter.setTransposed(true);
    }
  }
  return success();
}

TokenFlattener::Method TokenFlattener::findMethod(StringRef op) {
  if (findActivation(op))
    return &TokenFlattener::flattenActivation;
  return llvm::StringSwitch<Method>(op)
      .Cases({"Reshape", "Transpose", "Expand"}, &TokenFlattener::flattenView)
      .Case("Slice", &TokenFlattener::flattenSlice)
      .Case("Concat", &TokenFlattener::flattenConcat)
      .Case("Gather", &TokenFlattener::flattenGather)
      .Case("Linear", &TokenFlattener::flattenLinear)
      .Cases({"RMSNormalization", "LayerNormalization"}, &TokenFlattener::flattenNorm)
      .Case("RotaryEmbedding", &TokenFlattener::flattenRotary)
      .Case("Attention", &TokenFlattener::flattenAttention)
      .Case("CausalConv", &TokenFlattener::flattenCausalConv)
      .Case("Decay", &TokenFlattener::flattenDecay)
      .Case("GatedDelta", &TokenFlattener::flattenGatedDelta)
      .Case("Route", &TokenFlattener::flattenRoute)
      .Case("ExpertLinear", &TokenFlattener::flattenExpertLinear)
      .Case("ExpertScale", &TokenFlattener::flattenExpertScale)
      .Case("ExpertSum", &TokenFlattener::flattenExpertSum)
      .Case("Pow", &TokenFlattener::flattenSquare)
      .Cases({"Add", "Mul", "Gated"}, &TokenFlattener::flattenBinary)
      .Cases({"Div", "Neg"}, &TokenFlattener::flattenScaled)
      .Default(nullptr);
}

LogicalResult TokenFlattener::flattenNode(nn::OnnxOp node) {
  if (Method method = findMethod(node.getOpType()))
    return (this->*method)(node);
  SmallVector<StringRef> others;
  for (auto each : main.getOps<nn::OnnxOp>())
    if (StringRef op = each.getOpType(); op != node.getOpType() && !findMethod(op) && !llvm::is_contained(others, op))
      others.push_back(op);
  auto diagnostic = emitUnsupported(node)
                    << "it is not part of any norm, rotary embedding, activation, linear layer or "
                       "causal attention that is known";
  if (!others.empty())
    diagnostic << "; " << nameOthers(others);
  return diagnostic;
}

LogicalResult TokenFlattener::flattenReturn(func::ReturnOp terminator) {
  const Token *logits = terminator.getNumOperands() == 1 ? find(terminator.getOperand(0)) : nullptr;
  if (!logits || logits->layout.getRank() != 3 || !hasWholeRows(*logits))
    return terminator.emitError("the result is not logits [batch, sequence, vocabulary]");
  auto scale = logits->flat.getDefiningOp<nn::ScaleOp>();
  terminator.setOperand(0, scale ? scaleInput(scale) : logits->flat);
  return success();
}

/// The head is a linear layer: what multiplies the logits can as well multiply its input, of which there is less.
Value TokenFlattener::scaleInput(nn::ScaleOp scale) {
  auto head = scale.getX().getDefiningOp<nn::LinearOp>();
  if (!head || head.getBias() || !head->hasOneUse() || scale.getShift())
    return scale;
  builder.setInsertionPoint(head);
  Value x = nn::ScaleOp::create(builder, scale.getLoc(), head.getX().getType(), head.getX(), scale.getAlphaAttr(),
                                FloatAttr());
  head.getXMutable().assign(x);
  return head;
}

void TokenFlattener::eraseNodes() {
  Block &body = main.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isa<nn::OnnxOp>(op) || (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>()))
      op.erase();
  body.eraseArgument(0);
  auto module = main->getParentOfType<ModuleOp>();
  for (auto parameter : llvm::make_early_inc_range(module.getOps<nn::ParameterOp>()))
    if (!parameter.getNumber() && SymbolTable::symbolKnownUseEmpty(parameter, main))
      parameter.erase();
  main.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
}

//===- Layouts ---------------------------------------------------------------------------------------------------===//

const TokenFlattener::Token *TokenFlattener::find(Value value) const {
  auto found = tokens.find(value);
  return found != tokens.end() && isa<FloatType>(getElementTypeOrSelf(found->second.flat)) ? &found->second : nullptr;
}

RankedTensorType TokenFlattener::tokenType(int64_t features) {
  return nn::getTokensType(features, builder.getF32Type());
}

void TokenFlattener::define(nn::OnnxOp node, Value flat, AxisLayout layout) {
  tokens[node.getOutputs()[0]] = {flat, std::move(layout)};
}

bool TokenFlattener::isBatch(ArrayRef<AxisPiece> pieces) const {
  return batch == 1 ? pieces.empty() : pieces == ArrayRef<AxisPiece>({0, batch, 1});
}

bool TokenFlattener::isSequence(ArrayRef<AxisPiece> pieces) const {
  return pieces == ArrayRef<AxisPiece>({1, sequence, 1});
}

bool TokenFlattener::areHeads(ArrayRef<AxisPiece> pieces, int64_t count, int64_t width) {
  return count == 1 ? pieces.empty() : pieces == ArrayRef<AxisPiece>({2, count, width});
}

bool TokenFlattener::areBatchAndSequence(ArrayRef<AxisLayout::Pieces> axes) const {
  SmallVector<AxisPiece> pieces;
  for (const AxisLayout::Pieces &axis : axes)
    llvm::append_range(pieces, axis);
  // What depends on the position alone has no batch.
  return !pieces.empty() && isSequence(pieces.back()) && (pieces.size() == 1 || isBatch(ArrayRef(pieces).drop_back()));
}

bool TokenFlattener::hasWholeRows(const Token &token) const {
  return token.layout.getRank() > 0 && areBatchAndSequence(token.layout.getAxes().drop_back()) &&
         getRun(token) == features(token.flat);
}

int64_t TokenFlattener::getRun(const Token &token) {
  if (token.layout.getRank() == 0)
    return 0;
  ArrayRef<AxisPiece> last = token.layout[token.layout.getRank() - 1];
  if (last.empty())
    return 1;
  return last.size() == 1 && last[0].axis == 2 && last[0].stride == 1 ? last[0].size : 0;
}

std::optional<AxisLayout> TokenFlattener::combine(const AxisLayout &a, const AxisLayout &b) const {
  size_t rank = std::max(a.getRank(), b.getRank());
  SmallVector<AxisLayout::Pieces> axes(rank);
  for (size_t fromBack = 1; fromBack <= rank; ++fromBack) {
    ArrayRef<AxisPiece> left, right;
    if (fromBack <= a.getRank())
      left = a[a.getRank() - fromBack];
    if (fromBack <= b.getRank())
      right = b[b.getRank() - fromBack];
    // Only what is the same for the whole batch may be repeated, and only along it.
    if (left != right && !(left.empty() && isBatch(right)) && !(right.empty() && isBatch(left)))
      return std::nullopt;
    llvm::append_range(axes[rank - fromBack], left.empty() ? right : left);
  }
  return AxisLayout(axes);
}
