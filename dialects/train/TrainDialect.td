// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_TRAIN_DIALECT
#define MEBP_TRAIN_DIALECT

include "mlir/IR/OpBase.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::mebp::train";
  let summary = "Blocks, their functions, and loops over chunks";
  let description = [{
    A model is a list of `train.block`s in the order of the forward pass. A block's functions are `func.func`s over `nn`
    values whose arguments and results say what they are by a `train.port`. Blocks of one structure share
    their functions and differ in the parameters that they bind.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mebp::nn::NNDialect"];
}

#endif
