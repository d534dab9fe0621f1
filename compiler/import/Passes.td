// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def Raise : Pass<"mebp-raise", "::mlir::ModuleOp"> {
  let summary = "Find the ideas that ONNX nodes spell out: norms, rotary embeddings, activations, linear, attention";
  let description = [{
    Each becomes one nn.onnx node, whichever way the exporter wrote it; nothing else changes.

    ```mlir
    %0 = nn.onnx "Sigmoid"(%gate) : ...
    %1 = nn.onnx "Mul"(%gate, %0) : ...
    %2 = nn.onnx "Mul"(%1, %up) : ...
    // becomes
    %2 = nn.onnx "Gated"(%gate, %up) {activation = "silu"} : ...
    ```
  }];
  let dependentDialects = ["::mebp::nn::NNDialect"];
}

def FlattenTokens : Pass<"mebp-flatten-tokens", "::mlir::ModuleOp"> {
  let summary = "Make kernels on [batch, sequence, features] of what was raised";
  let description = [{
    Reshapes and transposes are views: each value is known as a kernel's value and the way its axes map to batch,
    sequence and parts of the features. What remains has no static batch or sequence. A node that has no kernel is an
    error.

    ```mlir
    %0 = nn.onnx "Reshape"(%q) : (tensor<2x40x96xf32>) -> tensor<2x40x4x24xf32>
    %1 = nn.onnx "Transpose"(%0) {perm = [0, 2, 1, 3]} : ... -> tensor<2x4x40x24xf32>
    %2 = nn.onnx "RotaryEmbedding"(%1) {frequencies = ..., position_axis = -2, scale = 1.0} : ...
    // becomes
    %2 = nn.rope(%q) {head_dim = 24, frequencies = ...} : (tensor<?x?x96xf32, #nn.tokens>) -> tensor<?x?x96xf32, #nn.tokens>
    ```
  }];
  let dependentDialects = ["::mebp::nn::NNDialect"];
  let statistics = [Statistic<"views", "views", "reshapes and transposes that vanished">];
}
