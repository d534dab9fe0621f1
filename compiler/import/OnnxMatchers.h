// SPDX-License-Identifier: Apache-2.0
//
// What the raising patterns look at nn.onnx nodes with.
#pragma once

#include "compiler/import/AxisLayout.h"
#include "dialects/nn/ImportOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mebp {

/// The node that makes `value`, if it is an ONNX `op`.
nn::OnnxOp getNode(mlir::Value value, llvm::StringRef op);
llvm::ArrayRef<int64_t> getShape(mlir::Value value);
int64_t getInteger(nn::OnnxOp node, llvm::StringRef name, int64_t otherwise = 0);
double getFloat(nn::OnnxOp node, llvm::StringRef name, double otherwise = 0);
mlir::Attribute getAttribute(nn::OnnxOp node, llvm::StringRef name);
/// Whether a Gelu is the tanh form, not the exact one.
bool isTanhForm(nn::OnnxOp gelu);

/// The number that all elements of a constant are.
std::optional<double> getSplat(mlir::Value value);
/// Whether all elements of a constant are this number.
bool isSplat(mlir::Value value, double number);
/// A vector of the model's parameters that has `size` elements.
bool isParameterVector(mlir::Value value, int64_t size);

/// Calls `match(a, b)` with the operands of a commutative node in both orders, until it says true.
bool matchEitherWay(nn::OnnxOp node, llvm::function_ref<bool(mlir::Value, mlir::Value)> match);

/// factor · source = value: through Mul and Div by constants.
struct Scaled {
  mlir::Value source;
  double factor = 1;
};
Scaled stripScale(mlir::Value value);

/// constant · Π factors = value: through Mul, Div and Pow by constants, but not into `stop`.
struct Product {
  double constant = 1;
  llvm::SmallVector<mlir::Value> factors;
};
Product expandProduct(mlir::Value value, mlir::Value stop);

/// value = factor · a view of `source`.
struct View {
  mlir::Value source;
  AxisLayout layout;
  double factor = 1;
};
/// What `value` is a view of, through Reshape, Transpose, Expand and constant factors, from itself to the deepest.
std::vector<View> listViews(mlir::Value value);

/// The part [start, start + size) of `source`'s last axis that a Slice takes.
struct Part {
  mlir::Value source;
  int64_t start = 0, size = 0;
};
std::optional<Part> getPartOfLastAxis(mlir::Value value);

/// Replaces `root` by one node at its location.
void replaceByNode(mlir::PatternRewriter &rewriter, nn::OnnxOp root, llvm::StringRef op, mlir::ValueRange inputs,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// A pattern that is tried on every node of one op.
class NodePattern : public mlir::OpRewritePattern<nn::OnnxOp> {
public:
  NodePattern(mlir::MLIRContext *context, llvm::StringRef op, mlir::PatternBenefit benefit = 1)
      : OpRewritePattern(context, benefit), op(op) {}
  mlir::LogicalResult matchAndRewrite(nn::OnnxOp root, mlir::PatternRewriter &rewriter) const final {
    return mlir::success(root.getOpType() == op && raise(root, rewriter));
  }
  /// Whether `root` was replaced.
  virtual bool raise(nn::OnnxOp root, mlir::PatternRewriter &rewriter) const = 0;

private:
  llvm::StringRef op;
};

void populateRaiseRecurrences(mlir::RewritePatternSet &patterns);
void populateRaiseActivation(mlir::RewritePatternSet &patterns);
void populateRaiseAttention(mlir::RewritePatternSet &patterns);
void populateRaiseBatchedHeads(mlir::RewritePatternSet &patterns);
void populateRaiseExperts(mlir::RewritePatternSet &patterns);
void populateRaiseLinear(mlir::RewritePatternSet &patterns);
void populateRaiseNorm(mlir::RewritePatternSet &patterns);
void populateRaiseRope(mlir::RewritePatternSet &patterns);

} // namespace mebp
