// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/import/AxisLayout.h"
#include "dialects/nn/Arithmetic.h"
#include "dialects/nn/ImportOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mebp {

inline llvm::APFloat toFloat(double value) { return llvm::APFloat(static_cast<float>(value)); }

/// Makes kernels of the nodes of @main, in their order. A node's result is known as a Token: a kernel's value
/// [batch, sequence, features], and how the node's axes lie in it (axis 0, 1 and 2 of the layout).
class TokenFlattener {
public:
  explicit TokenFlattener(mlir::func::FuncOp main) : main(main), builder(main.getContext()) {}
  mlir::LogicalResult run();
  int getViews() const { return views; }

private:
  struct Token {
    mlir::Value flat;
    AxisLayout layout;
  };

  mlir::LogicalResult flattenArgument();
  mlir::LogicalResult storeWeightsOutByIn();
  using Method = mlir::LogicalResult (TokenFlattener::*)(nn::OnnxOp);
  static Method findMethod(llvm::StringRef op);
  mlir::LogicalResult flattenNode(nn::OnnxOp node);
  mlir::LogicalResult flattenReturn(mlir::func::ReturnOp terminator);
  mlir::Value scaleInput(nn::ScaleOp scale);
  void eraseNodes();

  mlir::LogicalResult flattenView(nn::OnnxOp node);
  mlir::LogicalResult flattenSlice(nn::OnnxOp node);
  mlir::LogicalResult flattenConcat(nn::OnnxOp node);
  mlir::LogicalResult flattenHeads(nn::OnnxOp node, int64_t axis);
  mlir::LogicalResult flattenGather(nn::OnnxOp node);
  mlir::LogicalResult flattenLinear(nn::OnnxOp node);
  mlir::LogicalResult flattenNorm(nn::OnnxOp node);
  mlir::LogicalResult flattenRotary(nn::OnnxOp node);
  mlir::LogicalResult flattenAttention(nn::OnnxOp node);
  // Recurrences: FlattenRecurrences.cpp.
  mlir::LogicalResult flattenCausalConv(nn::OnnxOp node);
  mlir::LogicalResult flattenDecay(nn::OnnxOp node);
  mlir::LogicalResult flattenGatedDelta(nn::OnnxOp node);
  /// Whether a view is of a parameter, for convolutions alone, which look through it.
  static bool isConvolutionWeight(nn::OnnxOp view);
  mlir::LogicalResult flattenRepeatedRow(nn::OnnxOp node, nn::ConstantOp indices);
  mlir::LogicalResult flattenSquare(nn::OnnxOp node);
  mlir::LogicalResult flattenScaled(nn::OnnxOp node);
  mlir::LogicalResult flattenBinary(nn::OnnxOp node);
  /// alpha x + shift, in one op with the one that x may come from.
  mlir::Value scale(nn::OnnxOp node, mlir::Value x, double alpha, double shift = 0);
  mlir::LogicalResult refuseAttention(nn::OnnxOp node);
  std::optional<AxisLayout> getLayoutByPosition(mlir::Value indices, int64_t width) const;
  // Activations: FlattenActivations.cpp.
  using Builder = mlir::Value (TokenFlattener::*)(nn::OnnxOp node, mlir::Value x);
  static Builder findActivation(llvm::StringRef op);
  mlir::LogicalResult flattenActivation(nn::OnnxOp node);
  mlir::Value buildByTable(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildSwish(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildGelu(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildSoftcap(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildClamp(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildSigmoid(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildSoftplus(nn::OnnxOp node, mlir::Value x);
  mlir::Value buildXielu(nn::OnnxOp node, mlir::Value x);
  // Mixtures of experts: FlattenExperts.cpp.
  mlir::LogicalResult flattenRoute(nn::OnnxOp node);
  mlir::LogicalResult flattenExpertLinear(nn::OnnxOp node);
  mlir::LogicalResult flattenExpertScale(nn::OnnxOp node);
  mlir::LogicalResult flattenExpertSum(nn::OnnxOp node);
  /// A parameter, declared and read in this shape from now on: the same numbers in the same order.
  mlir::FailureOr<mlir::Value> viewParameter(nn::OnnxOp node, mlir::Value value, llvm::ArrayRef<int64_t> shape);

  /// The activation that an operand is; null where it is none.
  const Token *find(mlir::Value value) const;
  mlir::RankedTensorType tokenType(int64_t features);
  void define(nn::OnnxOp node, mlir::Value flat, AxisLayout layout);

  /// Whether the axes but the last are batch and sequence, and the last is all features.
  bool hasWholeRows(const Token &token) const;
  bool areBatchAndSequence(llvm::ArrayRef<AxisLayout::Pieces> axes) const;
  /// The size of the last axis where it is a run of neighbouring features; 0 where it is not.
  static int64_t getRun(const Token &token);
  /// The layout of an element-by-element result; nullopt where the two do not lie alike.
  std::optional<AxisLayout> combine(const AxisLayout &a, const AxisLayout &b) const;
  bool isBatch(llvm::ArrayRef<AxisPiece> pieces) const;
  bool isSequence(llvm::ArrayRef<AxisPiece> pieces) const;
  /// Whether an axis is so many runs of `width` features, one after the other.
  static bool areHeads(llvm::ArrayRef<AxisPiece> pieces, int64_t count, int64_t width);

  mlir::func::FuncOp main;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, Token> tokens;
  int64_t batch = 0, sequence = 0;
  int views = 0;
};

/// "node 'name': ONNX op 'Foo' is not supported here: ", after the file's name where the module came from one.
mlir::InFlightDiagnostic emitUnsupported(nn::OnnxOp node);

} // namespace mebp
