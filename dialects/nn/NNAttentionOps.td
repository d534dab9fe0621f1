// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions, attention within a sequence, and the keys and values that generation keeps.
#ifndef MEBP_NN_ATTENTION_OPS
#define MEBP_NN_ATTENTION_OPS

include "dialects/nn/NNBase.td"

//===- Attention -------------------------------------------------------------------------------------------------===//

def NN_RopeOp : NN_KernelOp<"rope", [Differentiable]> {
  let summary = "Rotary position embedding, in halves or interleaved";
  let description = [{
    In each head of head_dim features, for i < f = size(frequencies) and a = (t − starts[t]) · frequencies[i] (inverse: −a):
    y[i] = scale (x[i] cos a − x[i+f] sin a), y[i+f] = scale (x[i+f] cos a + x[i] sin a); features from 2f on are
    copied. `interleaved`: a pair is not i and i+f, but 2i and 2i+1. The rotation is orthogonal, so its pullback is the inverse rotation times scale.
  }];
  let arguments = (ins Tokens:$x, Optional<Starts>:$starts, I64Attr:$head_dim, DenseF32ArrayAttr:$frequencies,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale, DefaultValuedAttr<BoolAttr, "false">:$inverse,
                       UnitAttr:$interleaved);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_AttentionOp : NN_KernelOp<"attention", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Causal attention with grouped heads";
  let description = [{
    Per head, with keys starts[t] ≤ j ≤ t (and j > t − window where window > 0) and s = scale q kᵀ, or c tanh(scale q kᵀ / c) with a
    `softcap` c > 0: p = softmax(s), o = p v, lse = log Σ exp(s). q [B,T,H·d], k [B,T,K·d], v [B,T,K·e], o [B,T,H·e],
    lse [B,T,H]; head h reads kv head h / (H/K). Values may have a width e of their own. With
    `capacity`, k and v are states of nn.append: they have what earlier steps left as well. `sinks` [H] has one more score
    for each head, which counts in Σ exp(s), has no value, and is no output's: what is left of it is lse. `slopes`, one
    for each head, make s = scale q kᵀ + slope (j − t) (ALiBi); they are constants, and go with no softcap.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Optional<Starts>:$starts, Optional<Vector>:$sinks, I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<I64Attr, "0">:$capacity,
                       OptionalAttr<F32Attr>:$softcap, OptionalAttr<DenseF32ArrayAttr>:$slopes);
  let results = (outs Tokens:$output, Tokens:$lse);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v (`,` $starts^)? (`sinks` $sinks^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_BidirectionalAttentionOp : NN_KernelOp<"bidirectional_attention", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Attention of an encoder, which sees all tokens of a sample, with grouped heads";
  let description = [{
    As nn.attention, with keys starts[t] ≤ j < ends[t], and |t − j| < window where window > 0.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Optional<Starts>:$starts, Optional<Ends>:$ends, I64Attr:$heads,
                       I64Attr:$kv_heads, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$output, Tokens:$lse);
  let hasVerifier = 1;
}

def NN_BidirectionalAttentionGradientOp :
    NN_KernelOp<"bidirectional_attention_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangents of bidirectional attention's inputs";
  let description = "As nn.attention_gradient, with the keys of nn.bidirectional_attention.";
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$o, Tokens:$lse, Tokens:$cotangent,
                       Optional<Tokens>:$dk_accumulator, Optional<Tokens>:$dv_accumulator, Optional<Starts>:$starts,
                       Optional<Ends>:$ends, I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$dq, Tokens:$dk, Tokens:$dv);
  let hasVerifier = 1;
}

def NN_AppendOp : NN_KernelOp<"append"> {
  let summary = "Rows of tokens, kept for later steps";
  let description = [{
    result = state, but its row p mod `capacity` of each batch item is the row of the token at position p, for all
    tokens of the step. `state` and `result` are one memory, [B,capacity,F], which the block keeps from step to step.
  }];
  let arguments = (ins Tokens:$state, Tokens:$rows, I64Attr:$capacity);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_AttentionGradientOp : NN_KernelOp<"attention_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangents of attention's inputs";
  let description = [{
    With s as in nn.attention: p = exp(s − lse), D = rowsum(dO · o), ds = p (dO vᵀ − D), times 1 − (s / c)² with a
    softcap c: dv = pᵀ dO, dq = scale ds k, dk = scale dsᵀ q;
    dk and dv are added to their accumulators, which a loop over chunks of queries carries.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$o, Tokens:$lse, Tokens:$cotangent,
                       Optional<Tokens>:$dk_accumulator, Optional<Tokens>:$dv_accumulator, Optional<Starts>:$starts,
                       I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       OptionalAttr<F32Attr>:$softcap, OptionalAttr<DenseF32ArrayAttr>:$slopes);
  let results = (outs Tokens:$dq, Tokens:$dk, Tokens:$dv);
  let hasVerifier = 1;
}

#endif
