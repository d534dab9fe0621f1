// SPDX-License-Identifier: Apache-2.0
//
// What a row knows of those before it by a state that is carried from row to row: convolutions,
// gated DeltaNets, and their rates.
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

def NN_SoftplusOp : NN_KernelOp<"softplus", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Softplus, or the logarithm of a decay";
  let description = [{
    y = log(1 + exp(x + bias)), times −exp(rate[f / (F / G)]) where there are G rates: the logarithm of what a recurrence
    keeps of its state. x, y [B,T,F], bias [F], rate [G].
  }];
  let arguments = (ins Tokens:$x, Optional<Vector>:$bias, Optional<Vector>:$rate);
  let results = (outs Tokens:$result);
  let assemblyFormat = [{
    `(` $x (`bias` $bias^)? (`rate` $rate^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_SoftplusGradientOp : NN_KernelOp<"softplus_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangent of softplus's input";
  let description = "dx = dy / (1 + exp(−x − bias)), times −exp(rate) where there are rates.";
  let arguments = (ins Tokens:$x, Tokens:$dy, Optional<Vector>:$bias, Optional<Vector>:$rate);
  let results = (outs Tokens:$result);
  let assemblyFormat = [{
    `(` $x `,` $dy (`bias` $bias^)? (`rate` $rate^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_GatedDeltaOp : NN_KernelOp<"gated_delta", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "The gated delta rule";
  let description = [{
    Of each of H heads a state S [K,P], which is 0 before the first token of a sample:
    S ← exp(g[t]) S, u = beta[t] (v[t] − Sᵀ k[t]), S ← S + k[t] uᵀ, o[t] = scale Sᵀ q[t]. q, k [B,T,G·K] have G key heads,
    of which head h has number h / (H / G); v, o [B,T,H·P], g, beta [B,T,H]. `state` and `next` [1,H·K·P] are S before
    the first row and behind the last one; `marks`, S before every 64th row, from the first one on. `items` as in
    nn.causal_conv. Gated DeltaNet (Yang et al. 2024), equation 10.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$g, Tokens:$beta, Optional<State>:$state,
                       Optional<Starts>:$starts, I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$items);
  let results = (outs Tokens:$output, State:$next, Matrix:$marks);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `,` $g `,` $beta (`state` $state^)? (`starts` $starts^)? `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_GatedDeltaGradientOp : NN_KernelOp<"gated_delta_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangents of the gated delta rule's inputs";
  let description = [{
    With R the cotangent of S behind row t, from `dstate` on, and S′ = exp(g) S before it, rows descending:
    R ← R + q (scale do)ᵀ, dq = scale S do, du = Rᵀ k, dk = R u − S′ (beta du), dv = beta du, dbeta = duᵀ (v − S′ᵀ k),
    R ← R − k (beta du)ᵀ, dg = ⟨R, S′⟩, R ← exp(g) R, and 0 where a sample begins. dq and dk are sums over the heads of
    a key head. `marks` as in nn.gated_delta, of the same rows.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$g, Tokens:$beta, Matrix:$marks, Tokens:$cotangent,
                       Optional<State>:$dstate, Optional<Starts>:$starts, I64Attr:$heads, I64Attr:$kv_heads,
                       F32Attr:$scale);
  let results = (outs Tokens:$dq, Tokens:$dk, Tokens:$dv, Tokens:$dg, Tokens:$dbeta, State:$next);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v `,` $g `,` $beta `,` $marks `,` $cotangent (`dstate` $dstate^)? (`starts` $starts^)? `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif
