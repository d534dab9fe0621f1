// SPDX-License-Identifier: Apache-2.0
//
// What all files of ops begin with: kinds of ops, and of values.
#ifndef MEBP_NN_BASE
#define MEBP_NN_BASE

include "dialects/nn/NNAttributes.td"
include "dialects/nn/NNInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class NN_PureOp<string mnemonic, list<Trait> traits = []> : Op<NN_Dialect, mnemonic, !listconcat(traits, [Pure])> {
  let assemblyFormat = "`(` operands `)` attr-dict `:` functional-type(operands, results)";
}
class NN_KernelOp<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, !listconcat(traits, [NN_KernelOpInterface, NN_SequenceOpInterface])>;
defvar Differentiable = DeclareOpInterfaceMethods<NN_DifferentiableOpInterface>;

class TokensOf<list<Type> elements>
    : Type<And<[3DTensorOf<elements>.predicate, CPred<"::mebp::nn::isTokens($_self)">]>,
           "tokens of " # AnyTypeOf<elements>.summary # " values", "::mlir::RankedTensorType">;
def Tokens : TokensOf<[AnyFloat]>;
def TokenIds : TokensOf<[I32, I64]>;
// [B,T,1]: the position in its batch item of the first token of the sample that a token belongs to. Absent: all zeros.
def Starts : TokensOf<[I32]>;
// [B,T,1]: that of the first token behind it. Absent: the sequence's length.
def Ends : TokensOf<[I32]>;
def Matrix : 2DTensorOf<[AnyFloat]>;
def Vector : 1DTensorOf<[AnyFloat]>;
// Activations, or the gradients that a parameter has from two readers.
def Summand : AnyTypeOf<[Tokens, Matrix, Vector]>;

#endif
