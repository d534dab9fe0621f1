// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def PartitionBlocks : Pass<"mebp-partition-blocks", "::mlir::ModuleOp"> {
  let summary = "Cut @main into blocks that can be checkpointed: embed, layers, head";
  let description = [{
    Cuts wherever a single activation passes from what came before to what comes after, finds the repeated run of
    segments, and outlines each repetition as a layer. Scopes of the exporter only name what structure has found.

    ```mlir
    func.func @main(%ids) { %0 = nn.embedding.. %1 = .. nn.add.. %2 = .. nn.add.. %3 = nn.linear(%2, %w) return %3 }
    // becomes
    func.func @embed.forward(%ids, %w)  func.func @model.layers.0.forward(%x, ...)  ...  func.func @head.forward(%x, %w)
    train.block embed @embed parameters ("weight" = @model.embed_tokens.weight) programs {forward = @embed.forward} ...
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"cuts", "cuts", "narrow places found">, Statistic<"layers", "layers", "repeated blocks">];
}

def ShareFunctions : Pass<"mebp-share-functions", "::mlir::ModuleOp"> {
  let summary = "Let blocks of the same structure share one function";
  let description = "Compares functions by their text without names; blocks then differ only in what they bind.";
  let dependentDialects = ["::mebp::train::TrainDialect"];
  let statistics = [Statistic<"shared", "shared", "functions that another one replaced">];
}
