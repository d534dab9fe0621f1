// SPDX-License-Identifier: Apache-2.0
//
// Sums, products and parts of rows.
#ifndef MEBP_NN_ARITHMETIC_OPS
#define MEBP_NN_ARITHMETIC_OPS

include "dialects/nn/NNBase.td"

//===- Sums and parts --------------------------------------------------------------------------------------------===//

def NN_AddOp : NN_KernelOp<"add", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Sum";
  let description = "y = a + b.";
  let arguments = (ins Summand:$a, Summand:$b);
  let results = (outs Summand:$result);
}

def NN_MultiplyOp : NN_KernelOp<"multiply", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Product, element by element";
  let description = "y = a · b.";
  let arguments = (ins Tokens:$a, Tokens:$b);
  let results = (outs Tokens:$result);
}

def NN_ScaleOp : NN_KernelOp<"scale", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Product with a constant, and the sum with another";
  let description = "y = alpha x + shift.";
  let arguments = (ins Tokens:$x, F32Attr:$alpha, OptionalAttr<F32Attr>:$shift);
  let results = (outs Tokens:$result);
}

def NN_DropoutOp : NN_KernelOp<"dropout", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Zeroes a share of what a step reads";
  let description = [{
    y = m x / (1 − p) in a step, where m is 0 with probability p and else 1, and y = x elsewhere. m is drawn for each
    element by the step, the block, `salt` and the element's place, so that the op is its own pullback, and gives the
    same wherever it is computed again. 0 ≤ p < 1.
  }];
  let arguments = (ins Tokens:$x, F32Attr:$p, I64Attr:$salt);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_SplitOp : NN_KernelOp<"split", [Differentiable]> {
  let summary = "Parts of the features, in order";
  let description = [{
    x's features are `groups` groups of equal size. y_i has of each group the features start_i to start_i + size_i, where
    the sizes, times the groups, are the results' and add up to x's. Queries, keys and values of each head side by side
    are one group a head.
  }];
  let arguments = (ins Tokens:$x, OptionalAttr<I64Attr>:$groups);
  let results = (outs Variadic<Tokens>:$results);
  let hasVerifier = 1;
}

def NN_ConcatOp : NN_KernelOp<"concat", [Differentiable]> {
  let summary = "Features side by side";
  let description = "y = [x_0, x_1, ...] along the features, or along those of each group. It and split are each other's pullback.";
  let arguments = (ins Variadic<Tokens>:$parts, OptionalAttr<I64Attr>:$groups);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_RepeatOp : NN_KernelOp<"repeat", [Differentiable]> {
  let summary = "Features side by side, again and again";
  let description = "y = [x, x, ...], as many as there is room for: what all heads have in common, for each of them.";
  let arguments = (ins Tokens:$x);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_RepeatGradientOp : NN_KernelOp<"repeat_gradient"> {
  let summary = "The cotangent of repeat's input";
  let description = "dx = the sum of dy's parts, each as wide as dx.";
  let arguments = (ins Tokens:$dy);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_FillOp : NN_KernelOp<"fill"> {
  let summary = "A tensor of one value";
  let description = "y = value.";
  let arguments = (ins F32Attr:$value);
  let results = (outs AnyRankedTensor:$result);
}

#endif
