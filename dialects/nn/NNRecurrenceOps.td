// SPDX-License-Identifier: Apache-2.0
//
// What a row knows of those before it by a state that is carried from row to row: convolutions.
#ifndef MEBP_NN_RECURRENCE_OPS
#define MEBP_NN_RECURRENCE_OPS

include "dialects/nn/NNBase.td"

// [rows, columns] of one batch item; where generation keeps one for each, tokens with a capacity of so many rows.
def State : AnyTypeOf<[Matrix, Tokens]>;

def NN_CausalConvOp : NN_KernelOp<"causal_conv", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Depthwise convolution over a token and those before it";
  let description = [{
    y[t, c] = bias[c] + Σ_j w[c, W−1−j] x[t−j, c], for j < W and t − j ≥ starts[t]. x, y [B,T,C], w [C,W]. `state`
    has the W − 1 rows before the first one, the last of them last; `next`, those before the row behind the last.
    `items`: so many states, one for each batch item; 0: one, of the item that the rows are of.
  }];
  let arguments = (ins Tokens:$x, Matrix:$w, Optional<Vector>:$bias, Optional<State>:$state, Optional<Starts>:$starts,
                       DefaultValuedAttr<I64Attr, "0">:$items);
  let results = (outs Tokens:$output, State:$next);
  let assemblyFormat = [{
    `(` $x `,` $w (`bias` $bias^)? (`state` $state^)? (`starts` $starts^)? `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_CausalConvInputGradientOp : NN_KernelOp<"causal_conv_input_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangent of a convolution's input";
  let description = [{
    dx[t, c] = Σ_j w[c, W−1−j] dy[t+j, c], for j < W and t ≥ starts[t+j]. `owed` has what rows behind the last one add to
    the last W − 1 rows, the last of them last; `next`, what these rows add to the W − 1 before the first.
  }];
  let arguments = (ins Tokens:$dy, Matrix:$w, Optional<State>:$owed, Optional<Starts>:$starts);
  let results = (outs Tokens:$dx, State:$next);
  let assemblyFormat = [{
    `(` $dy `,` $w (`owed` $owed^)? (`starts` $starts^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_CausalConvWeightGradientOp : NN_KernelOp<"causal_conv_weight_gradient", [AttrSizedOperandSegments]> {
  let summary = "The gradient of a convolution's weight";
  let description = "dw[c, W−1−j] = accumulator + Σ_t dy[t, c] x[t−j, c], for t − j ≥ starts[t]. x has all tokens.";
  let arguments = (ins Tokens:$dy, Tokens:$x, Optional<Matrix>:$accumulator, Optional<Starts>:$starts);
  let results = (outs Matrix:$result);
  let assemblyFormat = [{
    `(` $dy `,` $x (`accumulator` $accumulator^)? (`starts` $starts^)? `)` attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif
