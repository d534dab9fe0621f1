// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def AttachObjective : Pass<"mebp-attach-objective", "::mlir::ModuleOp"> {
  let summary = "Give the head block the log-probabilities that objectives are made of";
  let description = [{
    The head's forward function becomes `logits`; beside it comes `log_probabilities`, the same function up to the last
    linear layer, which becomes nn.log_probability of the labels. An adapter of that layer goes with it.

    ```mlir
    func.func @head.forward(%x, %w) { return nn.linear(%x, %w) }
    // becomes
    func.func @head.logits(%x, %w) { return nn.linear(%x, %w) }
    func.func @head.log_probabilities(%x, %labels, %w) { return nn.log_probability(%x, %w, %labels) }
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def DifferentiateBlocks : Pass<"mebp-differentiate-blocks", "::mlir::ModuleOp"> {
  let summary = "Give every layer its backward function and the head its objective";
  let description = [{
    A backward function maps (flows in, cotangents of the flows out, parameters) to (cotangents of the flows in,
    gradients of the trainable parameters). It recomputes what it needs of the forward function; nothing is computed for
    frozen parameters. The head's objective takes coefficients, the cotangents of the log-probabilities, of values
    where there are any, and with `entropy` of the entropy. It gives what it takes these of, and what a backward gives.

    ```mlir
    func.func @layer.forward(%x, %w, %A, %B) { .. return %y }
    // adds
    func.func @layer.backward(%x, %dy, %w, %A, %B) { .. return %dx, %dA, %dB }
    ```
  }];
  let options = [Option<"entropy", "entropy", "bool", "false", "the objective depends on the entropy, too">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"gradients", "gradients", "gradients of trainable parameters, over distinct functions">];
}
