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
