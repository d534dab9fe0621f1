// SPDX-License-Identifier: Apache-2.0
include "mlir/Pass/PassBase.td"

def AssignPlaces : Pass<"mebp-assign-places", "::mlir::ModuleOp"> {
  let summary = "Decide which programs run on a server";
  let description = [{
    ```mlir
    train.block layer @model.layers.0 parameters (...) programs {adapt = @layer.adapt, forward = @layer.forward, ...}
    // becomes
    train.block layer @model.layers.0 parameters (...) programs {...}
        attributes {places = {adapt = "device", forward = "server", ...}}
    ```
  }];
  let options = [Option<"deviceFirst", "device-first", "int64_t", "0", "layers from the first on that stay on the device">,
                 Option<"deviceLast", "device-last", "int64_t", "0", "of the last ones">];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def NarrowWire : Pass<"mebp-narrow-wire", "::mlir::ModuleOp"> {
  let summary = "Make bf16 what crosses between device and server";
  let description = [{
    Of f32 activations, those that cross: what the first of the server's layers takes, what the last one gives, u and v
    of each, and the cotangents of these. Kernels round where they store them. Layers that share a function and of which
    other things cross get clones.

    ```mlir
    func.func @layer.compress(%x : tensor<?x?x576xf32, #nn.tokens>, ..) -> (tensor<?x?x32xf32, #nn.tokens> {remote "q_proj.u"})
    // becomes, for a served layer behind another one
    func.func @layer.compress.remote(%x : tensor<?x?x576xf32, #nn.tokens>, ..) -> (tensor<?x?x32xbf16, #nn.tokens> {remote "q_proj.u"})
    ```
  }];
  let dependentDialects = ["::mebp::train::TrainDialect"];
}

def CheckPrivate : Pass<"mebp-check-private", "::mlir::ModuleOp"> {
  let summary = "Check that a user's data reaches the server through nothing but what is passed to it";
  let description = [{
    Ids, labels, coefficients, log-probabilities, logits, trained parameters and their gradients are private. A program
    on the server that takes or gives one is an error at that program; so is a block of the device between blocks of the
    server, through which more would pass than the list has: the first hidden state, v, the cotangent of the last hidden
    state, the cotangent of u.
  }];
}

def KeepPlace : Pass<"mebp-keep-place", "::mlir::ModuleOp"> {
  let summary = "Keep the programs of one place, and what they bind";
  let options = [Option<"place", "place", "std::string", "\"device\"", "device or server">];
}
