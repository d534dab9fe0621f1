// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_NN_DIALECT
#define MEBP_NN_DIALECT

include "mlir/IR/OpBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::mebp::nn";
  let summary = "The mathematics of decoder models, one op per idea";
  let description = [{
    Activations are `tensor<?x?xFxf32, #nn.tokens>`: batch, sequence, features. Both leading sizes are run-time matters,
    so no op here knows how long a sequence is; positions are counted from the start of each sequence. Weights are
    `tensor<MxKxf32>`, out by in, whatever their storage will be. What has no `#nn.tokens` has no rows of tokens,
    whatever its rank.

    Every op that is computed at run time is a kernel of the same name (docs/kernels.md). One that can be trained
    through carries its gradient rule in `DifferentiableOpInterface`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    // Each in the file of its subject.
    void registerActivations();
    void registerArithmetic();
    void registerAttention();
    void registerEmbeddings();
    void registerExperts();
    void registerHead();
    void registerImportOps();
    void registerLinear();
    void registerNorms();
    void registerParameters();
    void registerRecurrences();
  }];
}

#endif
