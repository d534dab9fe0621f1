// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_NN_ATTRIBUTES
#define MEBP_NN_ATTRIBUTES

include "dialects/nn/NNDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"

def NN_ExternalDataAttr : AttrDef<NN_Dialect, "ExternalData"> {
  let mnemonic = "external";
  let summary = "Where a parameter's bytes lie: a file, the first byte, how many, and the element type there";
  let parameters = (ins StringRefParameter<>:$file, "uint64_t":$offset, "uint64_t":$bytes,
                        StringRefParameter<>:$element);
  let assemblyFormat = "`<` $file `,` $offset `,` $bytes `,` $element `>`";
}

def NN_DrawnAttr : AttrDef<NN_Dialect, "Drawn"> {
  let mnemonic = "drawn";
  let summary = "Which random numbers a parameter holds: the seed and the stream of format/random.h";
  let parameters = (ins "uint64_t":$seed, "uint64_t":$stream);
  let assemblyFormat = "`<` $seed `,` $stream `>`";
}

def NN_TokensAttr : AttrDef<NN_Dialect, "Tokens",
                            [DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let mnemonic = "tokens";
  let summary = "Says of a tensor, as its encoding, that it has a row for each token: [batch, sequence, features]";
  let description = [{
    Batch and sequence are known at run time. A sequence of a known size is of a state, which has room for so many
    positions of each batch item (nn.append).
  }];
}

#endif // MEBP_NN_ATTRIBUTES
