// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def AttachObjective : Pass<"mebp-attach-objective", "::mlir::ModuleOp"> {
  let summary = "Give the head block its loss";
  let description = [{
    The head's forward function becomes `logits`; beside it comes `loss`, the same function up to the last linear layer,
    which becomes nn.linear_cross_entropy with labels and their scale. Another objective is another function here.

    ```mlir
    func.func @head.forward(%x, %w) { return nn.linear(%x, %w) }
    // becomes
    func.func @head.logits(%x, %w) { return nn.linear(%x, %w) }
    func.func @head.loss(%x, %labels, %scale, %w) { return nn.linear_cross_entropy(%x, %w, %labels, %scale) }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def DifferentiateBlocks : Pass<"mebp-differentiate-blocks", "::mlir::ModuleOp"> {
  let summary = "Give every layer its backward function and the head its objective";
  let description = [{
    A backward function maps (flows in, cotangents of the flows out, parameters) to (cotangents of the flows in,
    gradients of the trainable parameters). It recomputes what it needs of the forward function; nothing is computed for frozen
    parameters.

    ```mlir
    func.func @layer.forward(%x, %w, %A, %B) { .. return %y }
    // adds
    func.func @layer.backward(%x, %dy, %w, %A, %B) { .. return %dx, %dA, %dB }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"gradients", "gradients", "gradients of trainable parameters, over distinct functions">];
}
