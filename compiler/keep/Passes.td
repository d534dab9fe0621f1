// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def KeepValues : Pass<"mebp-keep-values", "::mlir::ModuleOp"> {
  let summary = "Keep values of a layer's forward that its backward would compute again";
  let description = [{
    A layer's backward recomputes what it reads from the layer's input. Where a byte of memory is worth less than
    `price` seconds, it takes values from the forward instead: those for which the seconds that are left to recompute,
    and the price of what is kept, are the least together (a minimum cut). Ops of the backward say by `mebp.seconds` how
    long they take; the pass removes that. The first `layers` layers keep by `price`, the others by `rest_price`;
    functions that differ so are cloned.

    ```mlir
    func.func @layer.forward(%x) { %h = .. return %y }
    func.func @layer.backward(%x, %dy) { %h = .. {mebp.seconds = 1.0} .. }
    // becomes
    func.func @layer.forward.kept(%x) -> (.., {kept "mlp.up_proj"}) { %h = .. return %y, %h }
    func.func @layer.backward.kept(%x, %dy, %h {kept "mlp.up_proj"}) { .. }
    ```
  }];
  let options = [
    Option<"layers", "layers", "int64_t", "::mebp::Schedule().keep.layers", "the first layers, which keep by `price`">,
    Option<"price", "price", "double", "::mebp::Schedule().keep.price",
           "seconds that a byte of a token's row is worth">,
    Option<"restPrice", "rest-price", "double", "::mebp::Schedule().keep.restPrice", "likewise, in the other layers">,
    Option<"narrow", "narrow", "bool", "::mebp::Storage().narrowActivations", "activations will be bf16">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}
